package autoconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/pitr"
)

func TestATargetBecomesSettings(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89000, time.FixedZone("", 3600))
	for name, test := range map[string]struct {
		settings Settings
		want     []string
		never    string
	}{
		"the end":         {Settings{Timeline: 1, Own: 1, Action: "promote"}, []string{"recovery_target_timeline = 'current'", "hot_standby = 'off'"}, "recovery_target_time ="},
		"a time":          {Settings{StopAt: pitr.Target{Time: &at}}, []string{"recovery_target_time = '2026-03-04 04:06:07.000089+00'"}, "recovery_target_lsn"},
		"an LSN":          {Settings{StopAt: pitr.Target{LSN: 0x3000028}}, []string{"recovery_target_lsn = '0/3000028'", "recovery_target_inclusive = 'off'"}, "recovery_target_time ="},
		"a restore point": {Settings{StopAt: pitr.Target{RestorePoint: "it's"}}, []string{"recovery_target_name = 'it''s'"}, "recovery_target_time ="},
		"the backup":      {Settings{StopAt: pitr.Target{Immediate: true}}, []string{"recovery_target = 'immediate'"}, "recovery_target_time ="},
		"a later line":    {Settings{Timeline: 3, Own: 1}, []string{"recovery_target_timeline = '3'"}, "current"},
		"a pause":         {Settings{Action: "pause"}, []string{"recovery_target_action = 'pause'"}, "hot_standby"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := test.settings.Write(dir); err != nil {
				t.Fatal(err)
			}
			conf, err := os.ReadFile(filepath.Join(dir, autoConf))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(string(conf), want+"\n") {
					t.Errorf("%s is missing in %s", want, conf)
				}
			}
			if strings.Contains(string(conf), test.never) {
				t.Errorf("%s in %s", test.never, conf)
			}
			if _, err := os.Stat(filepath.Join(dir, "recovery.signal")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSettingsOfAnotherRecoveryGo(t *testing.T) {
	old := "work_mem = '5MB'\nrecovery_target_lsn = '0/1'\nRestore_Command = 'x'\nhot_standby = 'on'\nhot_standby_feedback = 'on'\nport = 1"
	if got, want := without(old), "work_mem = '5MB'\nhot_standby_feedback = 'on'\nport = 1\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestRestoreCommandSurvivesTheShell(t *testing.T) {
	words := []string{"printf", "%s|", "/my folder/it's 100%", "--prefix=sch\u00f6n", "$HOME"}
	command := Settings{Command: words}.restoreCommand()
	command = strings.NewReplacer("%%", "%", "%f", "SEGMENT", "%p", "pg_wal/R").Replace(command)
	out, err := exec.Command("sh", "-c", command).Output()
	if want := "/my folder/it's 100%|--prefix=sch\u00f6n|$HOME|--spool=pg_wal/howdah-spool|SEGMENT|pg_wal/R|"; err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
}
