//go:build postgres

package restorejob

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

const (
	targetsVariable = "HOWDAH_RESTORE_TARGETS" // how many targets are tried; 6, or 3 in short tests
	seedVariable    = "HOWDAH_RESTORE_SEED"    // of the history and the targets
)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), fmt.Sprint(otherwise)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsRestoredIsWhatWasCommittedAtTheTarget restores one history of a database to random targets, half of them beside a
// backup, a switchover or a failover, and compares every value. `make test-targets` tries thirty.
func TestWhatIsRestoredIsWhatWasCommittedAtTheTarget(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		seed := number(t, seedVariable, int(time.Now().UnixNano()%1e9))
		t.Logf("%s=%d", seedVariable, seed)
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		h := newHistory(newBed(t, pg), random)
		h.happens()
		targets := 6
		if testing.Short() {
			targets = 3
		}
		for i := range number(t, targetsVariable, targets) {
			after := h.somewhere(i%2 == 0)
			target, name, after := h.target(after)
			from := h.backupBefore(target, after)
			t.Run(fmt.Sprintf("%s, from %s", name, from.manifest.ID), func(t *testing.T) { h.restoresExactly(t, target, from, after) })
		}
	})
}

// happens is the history: four timelines, with backups on three of them.
func (h *history) happens() {
	h.write(6)
	h.backs("first")
	h.write(14)
	h.switchesOver()
	h.write(10)
	h.backs("second")
	replica := h.standby()
	h.write(12)
	h.archive()
	h.write(6)
	h.failsOver(replica)
	h.write(10)
	h.backs("third")
	h.write(10)
	h.switchesOver()
	h.write(15)
	h.archive()
	h.conn.Close(h.t.Context())
	h.server.Stop()
}

// somewhere is a number of changes after the first backup, and before the last change.
func (h *history) somewhere(besideAnEvent bool) int {
	first, last := h.backups[0].holds+2, len(h.changes)-1
	after := first + h.random.IntN(last-first)
	if besideAnEvent {
		after = h.events[h.random.IntN(len(h.events))] + h.random.IntN(5) - 2
	}
	return max(first, min(after, last))
}

// target is one of those that lead to the rows after this many changes, or to one less: that is what it says last.
func (h *history) target(after int) (agentapi.RestoreTarget, string, int) {
	c, no := h.changes[after-1], false
	next := h.changes[after]
	between := c.at.Add(next.at.Sub(c.at) / 2).Truncate(time.Microsecond)
	if h.points[after] != "" && h.random.IntN(2) == 0 {
		return agentapi.RestoreTarget{RestorePoint: h.points[after]}, fmt.Sprintf("restore point after %d", after), after
	}
	switch kind := h.random.IntN(6); {
	case kind == 0 && c.lsn != "":
		return agentapi.RestoreTarget{LSN: c.lsn}, fmt.Sprintf("LSN after %d", after), after
	case kind == 1:
		return agentapi.RestoreTarget{XID: c.xid}, fmt.Sprintf("transaction %d", after), after
	case kind == 2:
		return agentapi.RestoreTarget{XID: c.xid, Inclusive: &no}, fmt.Sprintf("right before transaction %d", after), after - 1
	case kind == 3 && between.After(c.at):
		return agentapi.RestoreTarget{Time: &between}, fmt.Sprintf("a time between %d and %d", after, after+1), after
	case kind == 4:
		return agentapi.RestoreTarget{Time: &c.at, Inclusive: &no}, fmt.Sprintf("right before the time of %d", after), after - 1
	}
	return agentapi.RestoreTarget{Time: &c.at}, fmt.Sprintf("the time of %d", after), after
}

// backupBefore is any that ends before recovery would stop. To the time of a change, or to right before the next one, recovery continues
// until it meets the next change. To the change itself it stops there, so a backup that holds it ends too late.
func (h *history) backupBefore(target agentapi.RestoreTarget, after int) kept {
	most := after
	if target.RestorePoint != "" || target.LSN != "" || target.XID != 0 && target.Inclusive == nil {
		most = after - 1
	}
	var fit []kept
	for _, b := range h.backups {
		if b.holds <= most {
			fit = append(fit, b)
		}
	}
	return fit[h.random.IntN(len(fit))]
}

func (h *history) restoresExactly(t *testing.T, target agentapi.RestoreTarget, from kept, after int) {
	b := h.at(t)
	b.manifest = from.manifest
	task := b.task(target)
	task.BackupID, task.Timeline = from.manifest.ID, 4
	o := b.restore(b.store, task)
	var got string
	b.ask(o, func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), allRows).Scan(&got) })
	if want := h.rowsAfter(after); got != want {
		t.Errorf("restored is\n%s\nand committed was, after %d changes,\n%s", got, after, want)
	}
}
