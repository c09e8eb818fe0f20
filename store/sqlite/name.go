package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// nameTime is how long a name is waited for: a node that is started again may be
// faster than the end of the process before, or of what that one started.
const nameTime = time.Second

// names are the nodes' names that this store has: each is a lock on a file beside
// the database, which ends with the process.
type names struct {
	path string        // of the database
	turn chan struct{} // full while somebody uses what follows
	held map[string]*os.File
}

func newNames(path string) names {
	return names{path: path, turn: make(chan struct{}, 1), held: make(map[string]*os.File)}
}

// alone does something while nobody else takes names.
func (n *names) alone(ctx context.Context, do func() error) error {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
		return do()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take makes node's name this store's alone. store.ErrNameInUse if another has it.
func (n *names) take(ctx context.Context, node string) error {
	return n.alone(ctx, func() error { return n.lock(ctx, node) })
}

// hold makes sure of the names that were taken: one whose file was taken away is
// taken anew. store.ErrNameInUse if another has it by now.
func (n *names) hold(ctx context.Context) error {
	return n.alone(ctx, func() error {
		for node := range n.held {
			if err := n.lock(ctx, node); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n *names) lock(ctx context.Context, node string) error {
	path := n.file(node)
	if file := n.held[node]; file != nil && isAt(file, path) {
		return nil
	}
	for began := time.Now(); ; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		file, held, err := lock(path, false)
		switch {
		case err == nil:
			if old := n.held[node]; old != nil {
				_ = old.Close() // it is a lock on nothing
			}
			n.held[node] = file
			return nil
		case !held:
			return err
		case time.Since(began) > nameTime:
			return store.ErrNameInUse
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// file is where a name is locked. Names have characters that files may not have,
// and there are systems to which N1 and n1 are one file.
func (n *names) file(node string) string {
	sum := sha256.Sum256([]byte(node))
	return n.path + nameFile + hex.EncodeToString(sum[:12])
}

// isAt reports whether an open file is the one at path.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// release lets go of all names. Nobody may be taking one.
func (n *names) release() error {
	var files []*os.File
	for _, f := range n.held {
		files = append(files, f)
	}
	return closeAll(files...)
}

// TakeName makes a node's name this store's alone. See store.Named.
func (s *Store) TakeName(ctx context.Context, node string) error {
	if err := s.do(func() error { return s.names.take(ctx, node) }); err != nil {
		return fmt.Errorf("take the name %q: %w", node, err)
	}
	return nil
}

// Supersede ends the leases of a node's earlier runs. See store.Named.
func (s *Store) Supersede(ctx context.Context, node, incarnation string) error {
	err := rows.CheckRun(node, incarnation)
	if err == nil {
		err = s.TakeName(ctx, node)
	}
	if err == nil {
		err = s.do(func() error {
			return s.writer.writeSoon(ctx, func(stmt statements) error {
				_, err := stmt.exec(supersedeSQL, node, incarnation, now())
				return err
			})
		})
	}
	if err != nil {
		return fmt.Errorf("supersede: %w", err)
	}
	return nil
}
