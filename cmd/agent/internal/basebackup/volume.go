package basebackup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// What can be wrong before anything is copied, for errors.Is.
var (
	// errInstanceChanged is a volume or a server that is not the one of the plan.
	errInstanceChanged = errors.New("the instance is not the one that was planned")
	// errSessionLost is a session that broke during the copy.
	errSessionLost = errors.New("the session with the server was lost during the copy")
)

// startTolerance is how long a starting server may take between writing postmaster.pid and noting its start time.
const startTolerance = 5 * time.Minute

// checkVolume returns PGDATA on the volume, having made sure that the server that was asked runs on this very data: by
// the adopted generation, by the path, and by the start time in postmaster.pid.
func (w *Worker) checkVolume(task agentapi.BackupJob, facts facts) (string, error) {
	current, err := w.Volume.Current()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errInstanceChanged, err)
	}
	adopted, err := w.Volume.Read(current)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errInstanceChanged, err)
	}
	if of := adopted.DataGeneration(); of != task.DataGeneration {
		return "", fmt.Errorf("%w: the volume has adopted data generation %s instead of %s", errInstanceChanged, of, task.DataGeneration)
	}
	if facts.inRecovery {
		return "", fmt.Errorf("%w: the server is in recovery, so it is not a primary", errInstanceChanged)
	}
	if lineage := facts.systemIdentifier + "-" + task.DataGeneration; lineage != task.Lineage {
		return "", fmt.Errorf("%w: its lineage is %s instead of %s", errInstanceChanged, lineage, task.Lineage)
	}
	pgdata := w.Volume.PGData(current)
	if !strings.HasSuffix(filepath.Clean(facts.dataDirectory), filepath.Join(current, "pgdata")) && !samePath(facts.dataDirectory, pgdata) {
		return "", fmt.Errorf("%w: the server runs on %s", errInstanceChanged, facts.dataDirectory)
	}
	return pgdata, checkStart(pgdata, facts)
}

func samePath(a, b string) bool {
	a, errA := filepath.EvalSymlinks(a)
	b, errB := filepath.EvalSymlinks(b)
	return errA == nil && errB == nil && a == b
}

func checkStart(pgdata string, facts facts) error {
	content, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: no server runs on the volume", errInstanceChanged)
	}
	if err != nil {
		return err
	}
	pid, err := postgres.ParsePostmasterPID(content)
	if err != nil {
		return err
	}
	if apart := facts.started.Sub(pid.Started); pid.Started.IsZero() || apart < -time.Second || apart > startTolerance {
		return fmt.Errorf("%w: the server on the volume was started at %s, the one that answers at %s",
			errInstanceChanged, pid.Started.Format(time.RFC3339), facts.started.UTC().Format(time.RFC3339))
	}
	return nil
}

// instanceOf is the pod's name in the host that was connected to.
func instanceOf(host string) string {
	instance, _, _ := strings.Cut(host, ".")
	return instance
}
