package restorejob

import (
	"fmt"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// parameters configure the server that replays.
func parameters(r *restoring, control postgres.ControlData, target agentapi.RestoreTarget) []postgres.Parameter {
	return postgres.MergeParameters(
		recovery.Parameters(control, r.configDir(), r.SocketDir, r.task.PreloadLibraries),
		postgres.ParameterList(map[string]string{"restore_command": walsocket.CommandLine(r.WAL, walsocket.VerbFetch, r.SocketDir, "%f", "%p")}),
		recovery.Memory(r.Memory), recovery.OnWALVolume(r.Volume, control),
		targetParameters(target, timeline(r.task.Timeline, r.manifest.Timeline)),
	)
}

// timeline is recovery_target_timeline. The backup's own one needs no history file that way.
func timeline(planned int64, own uint32) string {
	if planned == 0 || planned == int64(own) {
		return "current"
	}
	return fmt.Sprint(planned)
}

// targetParameters say where replay stops. Unless something else is said, a time, a transaction and a restore point are
// included; an LSN is the position before which everything is wanted, as pg_current_wal_lsn gives it.
func targetParameters(target agentapi.RestoreTarget, timeline string) []postgres.Parameter {
	params := map[string]string{
		"recovery_target_timeline": timeline, "recovery_target_action": "promote", "recovery_target_inclusive": "on",
	}
	switch {
	case target.Time != nil:
		params["recovery_target_time"] = target.Time.UTC().Format("2006-01-02 15:04:05.999999+00")
	case target.LSN != "":
		params["recovery_target_lsn"], params["recovery_target_inclusive"] = target.LSN, "off"
	case target.RestorePoint != "":
		params["recovery_target_name"] = target.RestorePoint
	case target.XID != 0:
		params["recovery_target_xid"] = fmt.Sprint(target.XID)
	case target.Immediate:
		params["recovery_target"] = "immediate"
	}
	if target.Inclusive != nil {
		params["recovery_target_inclusive"] = map[bool]string{true: "on", false: "off"}[*target.Inclusive]
	}
	return postgres.ParameterList(params)
}

// parseCommitTime reads the time in PostgreSQL's message about the last transaction that was replayed.
func parseCommitTime(message string) (time.Time, bool) {
	_, text, found := strings.Cut(message, "last completed transaction was at log time ")
	if !found {
		return time.Time{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999-07", strings.TrimSpace(text))
	return at.UTC(), err == nil
}
