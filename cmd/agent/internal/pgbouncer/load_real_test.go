//go:build postgres

package pgbouncer

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// load are clients that write rows in transactions.
type load struct {
	done, failed, longest atomic.Int64
	refused               atomic.Int64 // of those that have failed: PgBouncer didn't even try
	first                 atomic.Value
	end                   func()
}

func (b *bed) load(clients int, database string) *load { return b.loadWithPauses(clients, database, 0) }

// loadWithPauses is a load of clients that pause between their transactions, so that they come at any moment.
func (b *bed) loadWithPauses(clients int, database string, pause time.Duration) *load {
	b.t.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(b.t.Context())
	ends := make(chan struct{}, clients)
	for n := range clients {
		go func() {
			defer func() { ends <- struct{}{} }()
			conn, err := pgx.Connect(b.t.Context(), b.databaseDSN(database))
			if err != nil {
				l.failed.Add(1)
				l.first.CompareAndSwap(nil, err.Error())
				return
			}
			defer conn.Close(context.Background())
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(pause)
				begin := time.Now()
				if err := transaction(b.t.Context(), conn, n, i); err != nil {
					l.failed.Add(1)
					if strings.Contains(err.Error(), "login has been failing") {
						l.refused.Add(1)
					}
					l.first.CompareAndSwap(nil, err.Error())
					return
				}
				l.done.Add(1)
				took := int64(time.Since(begin))
				for old := l.longest.Load(); took > old && !l.longest.CompareAndSwap(old, took); old = l.longest.Load() {
				}
			}
		}()
	}
	l.end = func() {
		cancel()
		for range clients {
			<-ends
		}
	}
	return l
}
