package writes

import "time"

// look is a question that only a server answers with a row that accepts writes.
const look = `SELECT host(inet_server_addr()), left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) WHERE NOT pg_is_in_recovery()`

// Stale are the answers of servers that still accepted writes when they were asked after a later one had been seen to. What servers
// acknowledged shows that as well; but under synchronous replication one that was replaced acknowledges nothing, and could
// still be read.
func Stale(looks []Ack) []Ack {
	answered := map[Row]bool{} // an answer that was late is none of a server that continues
	for _, l := range looks {
		answered[l.Row] = true
	}
	return Doubled(looks, answered)
}

// Span is the longest time over which one server gave such answers.
func Span(stale []Ack) (longest time.Duration) {
	first := map[string]time.Time{}
	for _, s := range ordered(stale) {
		if _, seen := first[s.Reign()]; !seen {
			first[s.Reign()] = s.At
		}
		longest = max(longest, s.At.Sub(first[s.Reign()]))
	}
	return longest
}
