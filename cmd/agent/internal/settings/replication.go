package settings

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// Replication is the place of a server among the instances of its cluster. The zero value is that of the only one.
type Replication struct {
	// Pod is the server's own name, by which its upstream knows it.
	Pod string
	// Upstream that it follows; nil: it is the primary, or waits until there is one.
	Upstream *Upstream
	// Slot of this server at its upstream.
	Slot string
	// Synchronous is synchronous_standby_names. It has a meaning on a primary only; a replica may have it before it is
	// promoted, and then has it from the first commit on.
	Synchronous string
	// StandbySlots is synchronized_standby_slots: no logical client gets what the replicas with these slots don't have. It has a
	// meaning on a primary only; a replica may have it before it is promoted.
	StandbySlots string
	// Logical: the server writes what logical replication needs, or will once it is started.
	Logical bool
	// VolumeBytes bounds the WAL, unless that is on a volume of its own, and temporary files; 0 is unknown.
	VolumeBytes int64
	// WALVolumeBytes bounds the WAL; 0: it is on the volume of the data.
	WALVolumeBytes int64
	// SegmentBytes is the size of a WAL segment; 0 is that of most servers.
	SegmentBytes int64
	// Image is what the programs can do.
	Image Image
	// FromArchive: a replica reads archived WAL, as its upstream has no more what it needs.
	FromArchive bool
	// ReadOnly lets clients only read unless they ask otherwise, and subscriptions apply nothing, as the volume is full.
	ReadOnly bool
	// Closed keeps clients out, as they could read what a failover would undo.
	Closed bool
	// DelaySeconds of a replica that replays WAL late. It has no slot, which would keep the WAL that the replica asks for only later.
	DelaySeconds int64
	// Least of a server that is started as a replica.
	Least Least
}

// Upstream is a server to follow.
type Upstream struct {
	Pod string
	// Host is the name in its certificate, and Address where it is: no DNS is asked.
	Host    string
	Address string
	// Port is 0 where all instances have the same.
	Port int
}

// longestRetry is almost the longest that PostgreSQL takes for wal_retrieve_retry_interval. So long after its start, the worker of a subscription
// that has ended is not started again: it writes whatever default_transaction_read_only says. A replica waits no longer than usual before it connects
// again, as it has an upstream; one that has none yet looks at once when it is given one.
const longestRetry = "24d"

// parameters are what the replication settings change. They are not on the command line, where no reload could change them; so
// before version 17 a superuser's ALTER SYSTEM comes before them until the next start: see DropOverrides.
func (s Replication) parameters(paths Paths, major int, asked map[string]string) []postgres.Parameter {
	params := map[string]string{"primary_conninfo": "", "primary_slot_name": "", "synchronous_standby_names": s.Synchronous}
	database := ""
	if s.KeepsSlots(major, asked) {
		database = "postgres" // where the slots are asked for
		params["synchronized_standby_slots"] = s.StandbySlots
	}
	if s.Upstream != nil {
		params["primary_conninfo"] = s.Upstream.ConnInfo(s.Pod, database, senderOptions(asked), paths)
		params["primary_slot_name"] = s.Slot
	}
	if s.DelaySeconds > 0 {
		params["primary_slot_name"] = ""
		params["recovery_min_apply_delay"] = fmt.Sprintf("%ds", s.DelaySeconds)
		params["hot_standby_feedback"] = "off" // the primary would keep dead rows for as long as the delay
	}
	if s.Upstream != nil && s.FromArchive {
		params["restore_command"] = walsocket.CommandLine(paths.WAL, walsocket.VerbFetchReplica, paths.SocketDir, "%f", "%p")
	}
	if s.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	if s.ReadOnly && s.Upstream == nil {
		params["wal_retrieve_retry_interval"] = longestRetry
	}
	return postgres.ParameterList(params)
}

// KeepsSlots says whether replicas keep copies of logical slots. A server that doesn't write yet what those need would not come up, or go
// down, with sync_replication_slots.
func (s Replication) KeepsSlots(major int, asked map[string]string) bool {
	return s.Logical && s.DelaySeconds == 0 && postgres.KeepsFailoverSlots(major, asked)
}

// Times after which a connection to an upstream is given up.
const (
	connectSeconds = 3
	silence        = 5000 // ms without an acknowledgement
)

// senderOptions have the upstream notice in seconds that this server is silent. They are for its connection alone: clients of logical
// replication and clones may be silent for longer. What a person asks for is for everybody.
func senderOptions(asked map[string]string) string {
	if _, set := asked["wal_sender_timeout"]; set {
		return ""
	}
	return postgres.SessionOptions(map[string]string{"wal_sender_timeout": fmt.Sprintf("%dms", silence)})
}

// PortOr is the port, which is that of everybody unless it is known.
func (u Upstream) PortOr(everybody int) int { return cmp.Or(u.Port, everybody) }

// ConnInfo is how a program of this pod connects to the upstream as the replication role, by certificate. An empty
// database leaves it to the program; the options are those of the session.
func (u Upstream) ConnInfo(application, database, options string, paths Paths) string {
	pairs := [][2]string{
		{"host", u.Host}, {"hostaddr", u.Address}, {"port", fmt.Sprint(u.PortOr(paths.Port))},
		{"user", postgres.RoleReplication}, {"dbname", database}, {"application_name", application}, {"options", options},
		{"sslmode", "verify-full"}, {"sslrootcert", filepath.Join(paths.PeerTLSDir, CAFile)},
		{"sslcert", filepath.Join(paths.PeerTLSDir, CertFile)}, {"sslkey", filepath.Join(paths.PeerTLSDir, KeyFile)},
		{"gssencmode", "disable"}, {"connect_timeout", fmt.Sprint(connectSeconds)},
		{"keepalives_idle", "2"}, {"keepalives_interval", "1"}, {"keepalives_count", "3"}, {"tcp_user_timeout", fmt.Sprint(silence)},
	}
	var words []string
	for _, pair := range pairs {
		if pair[1] != "" {
			words = append(words, pair[0]+"="+postgres.QuoteConnInfo(pair[1]))
		}
	}
	return strings.Join(words, " ")
}
