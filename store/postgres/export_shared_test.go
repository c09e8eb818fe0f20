package postgres

// SharedSQL is SQL for what several nodes share, but that of the leases, which are
// few.
func (s *Store) SharedSQL() map[string][2]string {
	return map[string][2]string{
		"orphaned": {s.sql(orphanedSQL), "'30s', 16, '{}'"},
		"texts":    {s.sql(textsSQL), "'{s1,s2}'"},
		"fold":     {s.sql(interruptedSQL), "'s1', 'x', '{}'"},
		"end":      {s.sql(brokenSQL), "'s1'"},
		"delete":   {s.sql(deleteSQL), "'30d'"},
	}
}
