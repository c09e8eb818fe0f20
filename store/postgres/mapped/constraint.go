package mapped

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// constraintsSQL: $1 the table, $2 a column. The conditions on the column alone.
const constraintsSQL = `
	SELECT c.conname, pg_get_expr(c.conbin, c.conrelid)
	FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attname = $2
	WHERE c.conrelid = $1 AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum]
	ORDER BY c.conname`

// checkConstraints answers which conditions on the status refuse a word that will be
// written. What refused one would leave its streams streaming for ever.
func (l *layout) checkConstraints(ctx context.Context, db querier) (faults []string, err error) {
	type constraint struct{ Name, Condition string }
	rows, err := db.Query(ctx, constraintsSQL, l.message.Oid, l.names.Status)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[constraint])
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		refused, err := l.refused(ctx, db, c.Condition)
		if err != nil {
			return nil, err
		}
		if len(refused) > 0 {
			faults = append(faults, fmt.Sprintf("constraint %q of table %q refuses %s, which column %q is to hold: ALTER TABLE %s DROP CONSTRAINT %s",
				c.Name, l.message.Name, strings.Join(refused, ", "), l.names.Status, l.message.sql(), quote(c.Name)))
		}
	}
	return faults, nil
}

// refused answers the words of which a condition on the status is false.
func (l *layout) refused(ctx context.Context, db querier, condition string) ([]string, error) {
	rows, err := db.Query(ctx, fmt.Sprintf(
		"SELECT quote_literal(w) FROM unnest($1::text[]) WITH ORDINALITY AS u (w, n), LATERAL (SELECT w::%s AS %s) m WHERE NOT (%s) ORDER BY n",
		l.message.columns[l.names.Status].TypeName, quote(l.names.Status), condition), words)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
