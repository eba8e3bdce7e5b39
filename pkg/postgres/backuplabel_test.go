package postgres

import (
	"errors"
	"testing"

	"howdah.dev/howdah/test/testkit/heaptest"
)

const (
	labelFile = `START WAL LOCATION: 0/2000028 (file 000000010000000000000002)
CHECKPOINT LOCATION: 0/2000060
BACKUP METHOD: streamed
BACKUP FROM: primary
START TIME: 2026-11-21 01:11:00 UTC
LABEL: shop: first
START TIMELINE: 1
`
	historyFile = `START WAL LOCATION: 0/2000028 (file 000000010000000000000002)
STOP WAL LOCATION: 0/2000138 (file 000000010000000000000002)
CHECKPOINT LOCATION: 0/2000060
BACKUP METHOD: streamed
BACKUP FROM: standby
START TIME: 2026-11-21 01:11:00 UTC
LABEL: x
START TIMELINE: 1
STOP TIME: 2026-11-21 01:12:00 UTC
STOP TIMELINE: 1
`
)

func TestABackupLabelIsReadAndWrittenUnchanged(t *testing.T) {
	for _, content := range []string{labelFile, historyFile, labelFile + "INCREMENTAL FROM LSN: 0/1000028\nINCREMENTAL FROM TLI: 1\n"} {
		b, err := ParseBackupLabel([]byte(content))
		if err != nil || string(b.Render()) != content {
			t.Errorf("%v:\n%s", err, b.Render())
		}
		if b.StartLSN != 0x2000028 || b.StartFile != "000000010000000000000002" || b.Checkpoint != 0x2000060 || b.StartTimeline != 1 {
			t.Errorf("%+v", b)
		}
		if at, err := b.Started(); err != nil || at.Unix() != 1795223460 {
			t.Errorf("%v, %v", at, err)
		}
	}
}

func TestABrokenBackupLabelIsRefused(t *testing.T) {
	for _, content := range []string{"", "LABEL: x\n", "START WAL LOCATION: 0/2000028\n", "START TIMELINE: one\n", "CHECKPOINT LOCATION: 0/2\n"} {
		if b, err := ParseBackupLabel([]byte(content)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %+v, %v", content, b, err)
		}
	}
}

func FuzzParseBackupLabel(f *testing.F) {
	f.Add([]byte(historyFile))
	f.Fuzz(func(t *testing.T, content []byte) {
		var b BackupLabel
		var err error
		heaptest.AtMost(t, 1<<20, 64, len(content), func() { b, err = ParseBackupLabel(content) })
		if err != nil {
			return
		}
		if again, err := ParseBackupLabel(b.Render()); err != nil || again.StartLSN != b.StartLSN {
			t.Errorf("%q -> %+v, %v", content, again, err)
		}
	})
}
