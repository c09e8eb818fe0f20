package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
)

// A pooler may be told to drop what a client sets as it connects
// (ignore_startup_parameters), and says nothing of it.

// lacking answers the settings that sessions are without, though they were asked
// for: a pooler has dropped them.
func lacking(ctx context.Context, pool *pgxpool.Pool) (names []string, err error) {
	var wanted, values []string
	for name, value := range asked(pool) {
		wanted, values = append(wanted, name), append(values, value)
	}
	// What the server makes of a value is known once it is set.
	found, err := pool.Query(ctx, "SELECT name, current_setting(name, true) IS DISTINCT FROM set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS s (name, value)",
		pgx.QueryExecModeExec, wanted, values)
	if err != nil {
		return nil, Failed(ctx, err, "look at the settings of the session")
	}
	var name string
	var lacks bool
	_, err = pgx.ForEachRow(found, []any{&name, &lacks}, func() error {
		if lacks {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, Failed(ctx, err, "look at the settings of the session")
	}
	slices.Sort(names)
	return names, nil
}

// asked answers the settings that a pool's sessions ask for as they begin, but
// those that poolers keep for their clients.
func asked(pool *pgxpool.Pool) map[string]string {
	all := make(map[string]string)
	for name, value := range pool.Config().ConnConfig.RuntimeParams {
		switch name {
		case "application_name", "client_encoding", "replication":
		case "options":
			for _, option := range strings.Fields(strings.ReplaceAll(value, "-c ", "-c")) {
				option, _ = strings.CutPrefix(option, "-c")
				option, _ = strings.CutPrefix(option, "--")
				if name, value, ok := strings.Cut(option, "="); ok {
					all[strings.ReplaceAll(name, "-", "_")] = value
				}
			}
		default:
			all[name] = value
		}
	}
	return all
}

// heeded makes sure that a pooler has not dropped what the URL itself asks for.
func heeded(ctx context.Context, pool *pgxpool.Pool) error {
	lacks, err := lacking(ctx, pool)
	if err == nil && len(lacks) > 0 {
		err = fmt.Errorf("%w: the URL asks for %s, which the pooler that it leads to drops (ignore_startup_parameters): take it out of the URL, and %s",
			plane.ErrConfig, strings.Join(lacks, ", "), forRole(pool, lacks, asked(pool)))
	}
	if err != nil {
		pool.Close()
	}
	return err
}

// Unbounded says what an operator should do where sessions have no bound on what
// they wait for, since a pooler lets nobody set one; "" if they have.
func Unbounded(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	bounds := []string{"idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout"}
	set := asked(pool)
	bounds = slices.DeleteFunc(bounds, func(name string) bool { _, ok := set[name]; return ok })
	found, err := pool.Query(ctx, "SELECT name FROM unnest($1::text[]) AS s (name) WHERE current_setting(name) = '0' ORDER BY name",
		pgx.QueryExecModeExec, bounds)
	if err != nil {
		return "", Failed(ctx, err, "look at the settings of the session")
	}
	lacks, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return "", Failed(ctx, err, "look at the settings of the session")
	}
	if len(lacks) == 0 {
		return "", nil
	}
	return fmt.Sprintf("by way of the pooler sessions have no %s: %s", strings.Join(lacks, ", "), forRole(pool, lacks, defaults)), nil
}

// forRole says how settings are made the role's.
func forRole(pool *pgxpool.Pool, names []string, values map[string]string) string {
	var set []string
	for _, name := range names {
		set = append(set, fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", quote(pool.Config().ConnConfig.User), name, values[name]))
	}
	return strings.Join(set, "; ")
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
