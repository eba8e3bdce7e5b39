package main

import (
	"context"
	"fmt"
)

// change changes one row in a hundred of the largest table: neighbours, or rows from all over it. No two runs change the
// same ones.
func (s *server) change(ctx context.Context, work string) error {
	s.changes++
	where := fmt.Sprintf("aid BETWEEN (SELECT max(aid) FROM pgbench_accounts) * %[1]d / 100 + 1 AND (SELECT max(aid) FROM pgbench_accounts) * (%[1]d + 1) / 100",
		s.changes%100)
	if work == workRandom {
		where = fmt.Sprintf("abs(hashint4(aid)::bigint) %% 100 = %d", s.changes%100)
	}
	return s.execute(ctx, "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE "+where, "CHECKPOINT")
}

// execute runs statements, each in a transaction of its own.
func (s *server) execute(ctx context.Context, statements ...string) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
