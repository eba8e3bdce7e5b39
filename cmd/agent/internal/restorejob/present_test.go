//go:build postgres

package restorejob

import (
	"os/exec"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// volumeOf is one with a copy of the server's data as it is now, as that of a database with this identifier.
func (b *bed) volumeOf(systemIdentifier string) generation.Volume {
	b.t.Helper()
	volume := generation.Volume(pgtest.Dir(b.t))
	b.fillVolume(volume, systemIdentifier)
	return volume
}

func (b *bed) fillVolume(volume generation.Volume, systemIdentifier string) {
	b.t.Helper()
	pgdata, err := volume.Begin("g0")
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.down {
		b.exec("CHECKPOINT")
	}
	if out, err := exec.Command("cp", "-a", b.server.DataDir+"/.", pgdata).CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	before := generation.Generation{
		ID: "g0", SystemIdentifier: systemIdentifier, MajorVersion: b.server.Major, Origin: generation.Initdb, CreatedAt: time.Now(),
	}
	if err := volume.Complete(before); err != nil {
		b.t.Fatal(err)
	}
	if err := volume.Adopt("g0"); err != nil {
		b.t.Fatal(err)
	}
	lock, err := volume.Lock("g0") // as a supervisor did
	b.must(err)
	b.must(lock.Close())
}

// restoresInPlace takes from the previous data what the backup has, too, and the rest from the store.
func (b *bed) restoresInPlace() {
	task := b.task(agentapi.RestoreTarget{})
	task.InPlace = true
	o := b.restoreOn(b.volumeOf(strings.TrimSuffix(b.lineage, "-g0")), b.store, task)
	if first, last, count := b.rowsIn(o); first != 1 || last != 300 || count != 300 {
		b.t.Errorf("rows %d to %d, %d of them", first, last, count)
	}
	if total := b.manifest.Totals.LogicalBytes; o.result.TakenBytes < total/4 || o.result.TakenBytes > total {
		b.t.Errorf("%d of %d bytes are taken", o.result.TakenBytes, total)
	}
	if said := o.progress[len(o.progress)-1].Message; !strings.Contains(said, "taken from the previous data") {
		b.t.Errorf("it said %q", said)
	}
}

func (b *bed) fetchesBesideAnother() {
	task := b.task(agentapi.RestoreTarget{Immediate: true})
	task.InPlace = true
	o := b.restoreOn(b.volumeOf("4711"), b.store, task)
	if o.err != nil || o.result.TakenBytes != 0 || !strings.Contains(o.log.String(), "another database") {
		b.t.Errorf("%+v, %v: %s", o.result, o.err, o.log)
	}
}
