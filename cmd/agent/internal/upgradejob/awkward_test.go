//go:build postgres

package upgradejob

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/ociroot"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// oldRootVariable leads to the root of the image of PostgreSQL 15, where the tests run in that of a later one.
const oldRootVariable = "HOWDAH_OLD_ROOT"

// asPostgres unpacks that image first, which only root can do.
func asPostgres() (code int, err error) {
	if archive := os.Getenv("HOWDAH_IN_IMAGE"); archive != "" {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(archive), "postgresql-15-*.tar"))
		if err != nil || len(found) == 0 {
			return 1, fmt.Errorf("there is no image of PostgreSQL 15 beside %s: %w", archive, err)
		}
		dir, err := os.MkdirTemp("/tmp", "oldroot")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // for the user postgres
			return 1, err
		}
		root := filepath.Join(dir, "root")
		if err := ociroot.Unpack(context.Background(), found[len(found)-1], root); err != nil {
			return 1, err
		}
		if err := os.Setenv(oldRootVariable, root); err != nil {
			return 1, err
		}
	}
	return pgtest.AsPostgres(), nil
}

// awkward is what makes upgrades fail: a library that must be loaded, more slots than initdb's configuration allows, an unlogged table, a
// publication, a large object, locales of ICU, and a database whose sessions only read by default.
var awkward = []string{
	"CREATE EXTENSION pg_stat_statements",
	"CREATE FUNCTION answers() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM FROM public.pg_stat_statements; RETURN true; END'",
	"CREATE TABLE t AS SELECT generate_series(1, 10) AS n",
	"CREATE INDEX i ON t (n) WHERE answers()",
	"CREATE UNLOGGED TABLE u AS SELECT 1 AS n",
	"CREATE PUBLICATION p FOR TABLE t",
	"SELECT lo_from_bytea(4711, 'large')",
	"CREATE COLLATION de (provider = icu, locale = 'de-AT')",
	"CREATE TABLE l (word text COLLATE de)",
	"CREATE DATABASE austrian TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-AT'",
	"SELECT pg_create_logical_replication_slot('s' || n, 'pgoutput') FROM generate_series(1, 12) AS n",
	"ALTER DATABASE austrian SET default_transaction_read_only = on",
}

// TestAnAwkwardClusterIsUpgradedTwoImagesApart by the code of the Job, with the programs of each image as the Job has them.
func TestAnAwkwardClusterIsUpgradedTwoImagesApart(t *testing.T) {
	subset.OneIn(t, 3)
	root := os.Getenv(oldRootVariable)
	if root == "" {
		t.Skip("this machine has one version of PostgreSQL; the images of the test bed have two")
	}
	dir := shortDir(t)
	installed := pgtest.Installed(t)
	major := installed[len(installed)-1].Major
	w := Worker{
		Volume: generation.Volume(filepath.Join(dir, "volume")), OldRoot: root, Scratch: dir, PreloadLibraries: "pg_stat_statements",
		Run: postgres.Exec, Now: time.Now, Report: func(job.Progress) {},
	}
	fillAwkward(t, w, major)
	task := agentapi.UpgradeJob{FromVersion: 15, ToVersion: major, FromGeneration: "g1", ToGeneration: "g2"}
	result, err := w.Upgrade(t.Context(), task)
	if err != nil || result.MajorVersion != major {
		t.Errorf("%+v: %v", result, err)
	}
	found, err := w.programs(t.Context(), 15, major)
	if err != nil {
		t.Fatal(err)
	}
	control, err := postgres.ReadControlData(t.Context(), w.Run, found.oldBin, w.Volume.PGData("g1"))
	if err != nil {
		t.Fatal(err)
	}
	end := walEnd(control)
	task.Link, task.ToGeneration = &end, "g3"
	result, err = w.Upgrade(t.Context(), task)
	if err != nil || result.MajorVersion != major || shared(t, w.Volume.PGData("g3")) == 0 || w.Volume.Whole("g1") {
		t.Errorf("linked: %+v: %v", result, err)
	}
}

// fillAwkward makes an awkward data generation of PostgreSQL 15 on the volume.
func fillAwkward(t *testing.T, w Worker, major int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := w.programs(t.Context(), 15, major)
	must(err)
	pgdata, err := w.Volume.Begin("g1")
	must(err)
	_, err = w.Run(t.Context(), filepath.Join(found.oldBin, "initdb"), append(scratchArguments(pgdata), "--data-checksums")...)
	must(err)
	stop, err := w.start(t.Context(), found.oldBin, pgdata, "-c max_replication_slots=20 -c wal_level=logical ")
	must(err)
	tables := 20_000
	if testing.Short() {
		tables = 500
	}
	many := fmt.Sprintf("CREATE PROCEDURE many() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..%d LOOP EXECUTE format(''CREATE TABLE m%%s (n int)'', i); COMMIT; END LOOP; END'", tables)
	for _, statement := range append([]string{many, "CALL many()"}, awkward...) {
		_, err := w.Run(t.Context(), filepath.Join(found.newBin, "psql"), "-h", w.Scratch, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-c", statement)
		must(err)
	}
	must(stop(t.Context()))
	must(w.Volume.Complete(generation.Generation{ID: "g1", SystemIdentifier: "1", MajorVersion: 15, Origin: generation.Initdb}))
}
