package archive

import (
	"log/slog"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// The agent may have read of an archive that the archiver hasn't been told of yet. Whoever deletes volumes believes what is said.
func TestAnArchiverWithoutAnArchiveDoesNotSayThatAllIsArchived(t *testing.T) {
	a := New(t.TempDir(), slog.New(slog.DiscardHandler), time.Now, Limits{})
	t.Cleanup(a.Close)
	if left, err := a.Finish(t.Context(), postgres.ControlData{Timeline: 1, SegSize: postgres.DefaultSegSize}); err == nil {
		t.Errorf("without an archive, %v is left", left)
	}
}
