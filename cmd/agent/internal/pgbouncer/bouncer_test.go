package pgbouncer

import (
	"strconv"
	"testing"
)

func TestAPauseWaitsForLoginsButNotForThoseThatALimitKeepsFromBeginning(t *testing.T) {
	pool := func(waiting, login, active string) []map[string]string {
		return []map[string]string{{"user": "app", "database": "shop", "cl_waiting": waiting, "sv_login": login, "sv_active": active, "sv_idle": "0"}}
	}
	l := logins{size: 3, looks: map[string]int{}}
	look := func(what string, pools []map[string]string, want bool) {
		t.Helper()
		if got := l.in(pools); got != want {
			t.Fatalf("%s: got %t", what, got)
		}
	}
	look("nobody waits", pool("0", "0", "2"), false)
	look("a pool is full", pool("5", "0", "3"), false)
	look("a login is under way", pool("5", "1", "1"), true)
	for range 2 {
		for range settleLooks {
			look("a login is about to begin", pool("5", "0", "1"), true)
		}
		look("none begins", pool("5", "0", "1"), false)
		look("one begins after all", pool("5", "1", "1"), true)
	}
}

func TestAPauseDoesNotWaitForMoreSessionsThatPasswordsAreLookedUpOver(t *testing.T) {
	l := logins{size: 100, looks: map[string]int{}}
	pool := map[string]string{"user": "howdah_pooler", "database": lookupDatabase, "cl_waiting": "9", "sv_login": "0", "sv_active": strconv.Itoa(lookupPool)}
	if l.in([]map[string]string{pool}) {
		t.Error("it waits for another one")
	}
	pool["sv_active"], pool["sv_login"] = "0", "1"
	if !l.in([]map[string]string{pool}) {
		t.Error("it breaks one off")
	}
}
