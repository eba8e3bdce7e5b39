package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

var follows = Replication{
	Pod: "shop-1", Slot: "howdah_shop_1", VolumeBytes: 10 << 30,
	Upstream: &Upstream{Pod: "shop-0", Host: "shop-0.shop-pods.demo.svc", Address: "10.0.0.7"},
}

func render(t *testing.T, config agentapi.Config, replication Replication) Files {
	t.Helper()
	paths := paths
	paths.PeerTLSDir = "/p"
	files, err := Render(config, 15, paths, replication)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAReplicaFollowsItsPrimaryByCertificateAndAddress(t *testing.T) {
	files := render(t, agentapi.Config{Instances: 2}, follows)
	got := line(t, files, "primary_conninfo")
	for _, want := range []string{
		"host=''shop-0.shop-pods.demo.svc''", "hostaddr=''10.0.0.7''", "port=''5432''", "user=''howdah_replication''",
		"application_name=''shop-1''", "sslmode=''verify-full''", "sslrootcert=''/p/ca.crt''", "sslcert=''/p/tls.crt''",
		"sslkey=''/p/tls.key''", "connect_timeout=''3''", "tcp_user_timeout=''5000''",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "dbname") || strings.Contains(got, "password") {
		t.Error(got)
	}
	if got := line(t, files, "primary_slot_name"); got != "'howdah_shop_1'" {
		t.Error(got)
	}
}

func TestTheConnectionOfAReplicaAndNoOtherIsGivenUpSoon(t *testing.T) {
	for asked, want := range map[string]bool{"": true, "1min": false} {
		config := agentapi.Config{Instances: 2}
		if asked != "" {
			config.Parameters = map[string]string{"wal_sender_timeout": asked}
		}
		got := line(t, render(t, config, follows), "primary_conninfo")
		if strings.Contains(got, "options=''-c wal_sender_timeout=5000ms''") != want {
			t.Errorf("with wal_sender_timeout %q: %s", asked, got)
		}
	}
}

func TestOnlyAReplicaThatFellBehindHasARestoreCommand(t *testing.T) {
	behind, primary := follows, Replication{Pod: "shop-0", FromArchive: true}
	behind.FromArchive = true
	for name, test := range map[string]struct {
		replication Replication
		want        string
	}{"it follows": {follows, ""}, "it is behind": {behind, `'''/run/howdah/bin/wal'' fetch-replica ''/s'' "%f" "%p"'`}, "it is the primary": {primary, ""}} {
		files := render(t, agentapi.Config{Instances: 2}, test.replication)
		if got := line(t, files, "restore_command"); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if arguments := strings.Join(files.Arguments(paths), " "); strings.Contains(arguments, "restore_command") {
			t.Errorf("%s: %s", name, arguments)
		}
	}
}

func TestWhatAReloadChangesIsNotOnTheCommandLine(t *testing.T) {
	follows := follows
	follows.Synchronous = `ANY 1 ("shop-0")`
	files := render(t, agentapi.Config{Instances: 2}, follows)
	arguments := strings.Join(files.Arguments(paths), " ")
	for _, name := range []string{"primary_conninfo", "primary_slot_name", "synchronous_standby_names"} {
		if line(t, files, name) == "" || strings.Contains(arguments, name) {
			t.Errorf("%s: %s", name, arguments)
		}
	}
	if got := line(t, files, "synchronous_standby_names"); got != `'ANY 1 ("shop-0")'` {
		t.Error(got)
	}
}

func TestAPrimaryFollowsNobody(t *testing.T) {
	files := render(t, agentapi.Config{Instances: 2}, Replication{Pod: "shop-0", Synchronous: "x"})
	for name, want := range map[string]string{"primary_conninfo": "''", "primary_slot_name": "''", "synchronous_standby_names": "'x'"} {
		if got := line(t, files, name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func TestClientsOfAFullVolumeMayOnlyRead(t *testing.T) {
	config := agentapi.Config{Parameters: map[string]string{"default_transaction_read_only": "off"}}
	for full, want := range map[bool]string{true: "'on'", false: "'off'"} {
		if got := line(t, render(t, config, Replication{ReadOnly: full}), "default_transaction_read_only"); got != want {
			t.Errorf("full %v: %s", full, got)
		}
	}
	if got := line(t, render(t, agentapi.Config{}, Replication{}), "default_transaction_read_only"); got != "" {
		t.Errorf("without a reason it is %s", got)
	}
}

// The parameter is that of the workers of subscriptions, and of a replica that has lost its primary.
func TestOnlySubscriptionsOfAFullVolumeWaitAndNoReplica(t *testing.T) {
	const name = "wal_retrieve_retry_interval"
	upstream := &Upstream{Pod: "shop-1", Host: "shop-1.shop-pods", Address: "10.0.0.2"}
	for _, config := range []agentapi.Config{{Instances: 1}, {Instances: 2}, {Instances: 2, Parameters: map[string]string{name: "2s"}}} {
		usual := line(t, render(t, config, Replication{}), name)
		for want, replication := range map[string]Replication{"'24d'": {ReadOnly: true}, usual: {ReadOnly: true, Upstream: upstream}} {
			if got := line(t, render(t, config, replication), name); got != want {
				t.Errorf("%+v: %s, want %s", replication, got, want)
			}
		}
	}
}

func TestReplicasAreProvidedForWhereThereAreSome(t *testing.T) {
	for name, test := range map[string]struct {
		instances int
		volume    int64
		user      map[string]string
		want      map[string]string
	}{
		"a single instance": {1, 10 << 30, nil, map[string]string{"wal_sender_timeout": "", "wal_keep_size": "", "max_slot_wal_keep_size": "'3072MB'", "max_wal_senders": "'20'", "archive_mode": "'always'"}},
		"a volume of 10 GiB": {2, 10 << 30, nil, map[string]string{
			"wal_sender_timeout": "", "wal_receiver_timeout": "'5s'", "max_slot_wal_keep_size": "'3072MB'", "wal_keep_size": "'1024MB'", "hot_standby_feedback": "",
		}},
		"a volume of 1 GiB": {2, 1 << 30, nil, map[string]string{"max_slot_wal_keep_size": "'307MB'", "wal_keep_size": "'102MB'"}},
		"an unknown volume": {2, 0, nil, map[string]string{"max_slot_wal_keep_size": "", "wal_keep_size": "'512MB'"}},
		"a user's values": {3, 0, map[string]string{"max_wal_senders": "4", "wal_sender_timeout": "1min"}, map[string]string{
			"max_wal_senders": "'4'", "wal_sender_timeout": "'1min'",
		}},
	} {
		files := render(t, agentapi.Config{Instances: test.instances, Parameters: test.user}, Replication{VolumeBytes: test.volume})
		for parameter, want := range test.want {
			got := line(t, files, parameter)
			if got != want {
				t.Errorf("%s: %s is %s, want %s", name, parameter, got, want)
			}
		}
	}
}

func TestTooLittleRoomForTheInstancesIsRefused(t *testing.T) {
	config := agentapi.Config{Instances: 4, Parameters: map[string]string{"max_wal_senders": "4", "max_replication_slots": "2"}}
	_, err := Render(config, 15, paths, Replication{})
	if !errors.Is(err, postgres.ErrParameter) || !strings.Contains(err.Error(), "at least 5") || !strings.Contains(err.Error(), "at least 3") {
		t.Error(err)
	}
}

func TestADirectoryIsMarkedForItsNextServer(t *testing.T) {
	pgdata := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(pgdata, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		write("postgresql.auto.conf", "# Do not edit\nprimary_conninfo = 'host=x'\nwork_mem = '5MB'\nsynchronous_standby_names = ''\nrecovery_target_name = 'x'\n")
		write("recovery.signal", "")
		if err := MarkStandby(pgdata); err != nil {
			t.Fatal(err)
		}
		if is, err := IsStandby(pgdata); !is || err != nil {
			t.Errorf("%v, %v", is, err)
		}
		if _, err := os.Stat(filepath.Join(pgdata, "recovery.signal")); !os.IsNotExist(err) {
			t.Error(err)
		}
		content, err := os.ReadFile(filepath.Join(pgdata, "postgresql.auto.conf"))
		if err != nil || string(content) != "# Do not edit\nwork_mem = '5MB'\n" {
			t.Errorf("%q, %v", content, err)
		}
	}
	for range 2 {
		if err := MarkPrimary(pgdata); err != nil {
			t.Fatal(err)
		}
		if is, err := IsStandby(pgdata); is || err != nil {
			t.Errorf("%v, %v", is, err)
		}
	}
}
