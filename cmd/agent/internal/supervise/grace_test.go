//go:build postgres

package supervise

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAServerThatDoesNotStopIsStoppedBeforeTheGracePeriodEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it has five seconds, which a busy machine may need for less; make test-full has it")
	}
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.first.grace = 20 * time.Second
	two.run()
	checkpointer, err := strconv.Atoi(two.first.sql("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(checkpointer, syscall.SIGSTOP); err != nil { // as on a disk that is far too slow
		t.Fatal(err)
	}
	began := time.Now()
	_ = two.first.terminate(time.Minute) // that it was not stopped cleanly is known
	if took := time.Since(began); took >= two.first.grace {
		t.Errorf("the agent ended after %v, when its pod has been killed", took)
	}
}
