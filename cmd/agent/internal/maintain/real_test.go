//go:build postgres

package maintain

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed is a server with a table whose collation is of an older ICU, and a maintainer of it.
type bed struct {
	*pgtest.Server
	*Maintainer
	left, messages []string
}

func newBed(t *testing.T, index string) *bed {
	t.Helper()
	b := &bed{Server: pgtest.Start(t, pgtest.Options{})}
	b.Maintainer = &Maintainer{
		Server:     local.Server{SocketDir: b.SocketDir, Port: 5432, LockTimeout: 100 * time.Millisecond},
		Generation: generation.Generation{MajorVersion: b.Major}, Dir: t.TempDir(), BinDir: b.Installation.BinDir,
		Log:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		Report: func(left, messages []string) { b.left, b.messages = left, messages },
	}
	b.SQL("CREATE COLLATION german (provider = icu, locale = 'de');" +
		"CREATE TABLE words (word text COLLATE german); INSERT INTO words SELECT 'word' || i FROM generate_series(1, 1000) i;" + index +
		"; UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'")
	return b
}

func (b *bed) file() string { return b.SQL("SELECT pg_relation_filenode('words_index')") }

func (b *bed) invalid() string { return b.SQL("SELECT count(*) FROM pg_index WHERE NOT indisvalid") }

func TestAnIndexIsRebuiltHoweverLongATransactionStaysOpenAndWritesDoNotWait(t *testing.T) {
	b := newBed(t, "CREATE INDEX words_index ON words (word)")
	open, err := pgx.Connect(t.Context(), b.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(context.Background())
	if _, err := open.Exec(t.Context(), "BEGIN; INSERT INTO words VALUES ('open')"); err != nil {
		t.Fatal(err)
	}
	before, ended := b.file(), make(chan error, 1)
	go func() { ended <- b.Maintainer.Run(t.Context()) }()
	const waits = `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'REINDEX INDEX%' AND wait_event_type = 'Lock'
		AND clock_timestamp() - query_start > interval '1s'` // ten times as long as it may wait for other locks
	for b.SQL(waits) != "1" {
		select {
		case err := <-ended:
			t.Fatalf("it gave up: %v; %v", err, b.messages)
		case <-time.After(20 * time.Millisecond):
		}
	}
	b.SQL("SET statement_timeout = '5s'; INSERT INTO words VALUES ('meanwhile')")
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || len(b.messages) > 0 {
		t.Fatal(err, b.messages)
	}
	if b.file() == before || b.invalid() != "0" {
		t.Error("the index was not rebuilt")
	}
}

func TestAFailedRebuildLeavesNoIndexBehindAndBlocksNobody(t *testing.T) {
	b := newBed(t, `CREATE FUNCTION same(word text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN word; END';
		CREATE INDEX words_index ON words (same(word) COLLATE german);
		CREATE OR REPLACE FUNCTION same(word text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN RAISE LOG 'in %', current_query(); RAISE division_by_zero; END $$`)
	if err := b.Maintainer.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.messages) != 1 || !strings.Contains(b.messages[0], "index public.words_index in database postgres can't be rebuilt") {
		t.Errorf("messages %q", b.messages)
	}
	if got := b.invalid(); got != "0" {
		t.Errorf("%s invalid indexes are left", got)
	}
	if log := b.Server.Log(); strings.Contains(log, "in REINDEX INDEX public") {
		t.Error("it was rebuilt in a way that makes writes wait")
	}
}

func TestWhatAnInterruptedRebuildLeftIsDroppedByTheNext(t *testing.T) {
	b := newBed(t, "CREATE INDEX words_index ON words (word)")
	b.SQL("CREATE INDEX words_index_ccnew ON words (word); CREATE INDEX other_ccnew ON words (word)")
	b.SQL("UPDATE pg_index SET indisvalid = false WHERE indexrelid IN ('words_index_ccnew'::regclass, 'other_ccnew'::regclass)")
	if err := b.Maintainer.Run(t.Context()); err != nil || len(b.messages) > 0 {
		t.Fatal(err, b.messages)
	}
	if got := b.SQL("SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index WHERE NOT indisvalid"); got != "other_ccnew" {
		t.Errorf("the invalid indexes are %q", got)
	}
}

func TestAnIndexThatCanOnlyBeRebuiltWhileWritesWaitIsRebuiltWhenTheyMay(t *testing.T) {
	b := newBed(t, `CREATE INDEX other ON words (word);
		ALTER TABLE words ADD CONSTRAINT words_index EXCLUDE USING btree (word COLLATE german WITH =)`)
	open := false
	b.MayBlock = func() bool { return open }
	before := b.file()
	if err := b.Maintainer.Run(t.Context()); !errors.Is(err, ErrLater) {
		t.Errorf("outside the window: %v", err)
	}
	if len(b.left) != 0 || len(b.messages) != 1 || !strings.Contains(b.messages[0], "public.words_index") || b.file() != before {
		t.Errorf("outside the window: left %q, messages %q", b.left, b.messages)
	}
	other := b.SQL("SELECT pg_relation_filenode('other')")
	open = true
	if err := b.Maintainer.Run(t.Context()); err != nil || len(b.left) > 0 || len(b.messages) > 0 {
		t.Errorf("in the window: %v, left %q, messages %q", err, b.left, b.messages)
	}
	if b.file() == before || b.SQL("SELECT pg_relation_filenode('other')") != other {
		t.Error("in the window, it and nothing else is to be rebuilt")
	}
}

func TestStatisticsThatCouldNotBeCollectedAreTriedAgainAndTheirMessageGoesWithThem(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	b := newBed(t, "CREATE INDEX words_index ON words (word)")
	b.Generation.Maintenance = []string{generation.MaintainStatistics}
	b.SQL("CREATE FUNCTION public.shorten(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'; CREATE TABLE names (name text); INSERT INTO names VALUES ('x');" +
		"CREATE INDEX ON names (public.shorten(name)); CREATE OR REPLACE FUNCTION public.shorten(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE ''broken''; END'")
	for range 2 {
		if err := b.Maintainer.Run(t.Context()); err != nil || len(b.left) > 0 || len(b.messages) != 1 || !strings.Contains(b.messages[0], "statistics could not be collected everywhere") {
			t.Fatal(err, b.left, b.messages)
		}
	}
	b.SQL("CREATE OR REPLACE FUNCTION public.shorten(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'")
	if err := b.Maintainer.Run(t.Context()); err != nil || len(b.messages) > 0 {
		t.Fatal(err, b.messages)
	}
	if left, messages := b.Pending(); len(left)+len(messages) > 0 {
		t.Error(left, messages)
	}
}
