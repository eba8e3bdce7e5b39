package recovery

import "testing"

func TestRecoverySettingsDoNotOutliveRecovery(t *testing.T) {
	const conf = "# by ALTER SYSTEM\nwork_mem = '8MB'\nrestore_command = 'x'\nRecovery_Target_Time = 'y'\n  primary_conninfo = 'z'\nrecovery_min_apply_delay = 5\njit = off\n"
	if got := WithoutSettings(conf); got != "# by ALTER SYSTEM\nwork_mem = '8MB'\njit = off\n" {
		t.Errorf("%q", got)
	}
}
