package ring

// Stats is what a ring has counted since it was opened, and how it is.
type Stats struct {
	Joining, Active, Waiting, Draining int // members by state, this node among them
	Missing                            int // members of the last hour that are gone and were not seen to drain; joined again and again

	Views         uint64 // views made
	Rejoins       uint64 // peers joined, at the start and again
	RejoinsFailed uint64 // attempts that failed, one for each peer
	Unreached     int    // peers that the last attempt failed for: above 0 for long, the cluster is split, or a seed is out of date

	// Who was kept out, or kept this node out, counted for each attempt and packet.
	RefusedSecret, RefusedCluster, RefusedSettings, RefusedName, RefusedMalformed uint64

	Health   int  // memberlist's score of this node: 0 is well, up to 7 when it answers late
	Replaced bool // another process took this node's place
}

// Stats answers the counters.
func (r *Ring) Stats() Stats {
	view := r.View()
	absent, _ := r.roster.absent(r.cfg.RejoinMemory)
	s := Stats{
		Missing: len(absent), Unreached: int(r.unreached.Load()),
		Views: r.views.Load(), Rejoins: r.rejoins.Load(), RejoinsFailed: r.failures.Load(),
		RefusedSecret: r.refused.count(ErrSecret), RefusedCluster: r.refused.count(ErrCluster),
		RefusedSettings: r.refused.count(ErrSettings), RefusedName: r.refused.count(ErrNameTaken),
		RefusedMalformed: r.refused.count(errMalformed),
		Health:           r.list.GetHealthScore(),
		Replaced:         view.replaced,
	}
	for _, m := range view.members {
		switch m.State {
		case Joining:
			s.Joining++
		case Active:
			s.Active++
		case Waiting:
			s.Waiting++
		case Draining:
			s.Draining++
		}
	}
	return s
}
