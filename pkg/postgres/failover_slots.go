package postgres

import "strings"

// failoverSlots is the first version whose replicas keep copies of logical replication slots, with which a logical client continues after
// a failover.
const failoverSlots = 17

// KeepsFailoverSlots says whether the replicas of a server of this major keep copies of logical slots, where these parameters are asked
// for. A person who doesn't want hot_standby_feedback has none: without it the primary would remove catalog rows that a copy needs.
func KeepsFailoverSlots(major int, asked map[string]string) bool {
	return major >= failoverSlots && asked["wal_level"] == "logical" && !saysOff(asked["hot_standby_feedback"]) && !saysOff(asked["sync_replication_slots"])
}

// FailoverSlotParameters are what a server of a cluster that keeps failover slots has, be it primary or replica.
func FailoverSlotParameters() []Parameter {
	return ParameterList(map[string]string{"hot_standby_feedback": "on", "sync_replication_slots": "on"})
}

// saysOff reads a boolean as postgresql.conf has it. What it can't read is PostgreSQL's to judge.
func saysOff(value string) bool {
	switch strings.ToLower(value) {
	case "off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0":
		return true
	}
	return false
}
