package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/cmd/howdah-backup/internal/walget"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

func (a *app) walCommand() *cobra.Command {
	command := &cobra.Command{Use: "wal", Short: "List and fetch archived WAL", Args: cobra.NoArgs}
	command.AddCommand(
		&cobra.Command{
			Use:   "list",
			Short: "List the archived WAL by timeline, with its gaps",
			Args:  cobra.NoArgs,
			RunE:  a.run(func(ctx context.Context, store objstore.Store, _ []string) error { return a.walList(ctx, store) }),
		},
		a.walGetCommand(),
	)
	return command
}

// walRow is the WAL of one timeline, as JSON.
type walRow struct {
	Lineage  string `json:"lineage"`
	Timeline uint32 `json:"timeline"`
	First    string `json:"first"`
	Last     string `json:"last"`
	Segments int    `json:"segments"`
	// StoredBytes are those in the bucket.
	StoredBytes int64        `json:"storedBytes"`
	From        postgres.LSN `json:"from"`
	To          postgres.LSN `json:"to"`
	Holes       []walHole    `json:"holes"`
	Partial     string       `json:"partial,omitempty"`
}

type walHole struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

func (a *app) walList(ctx context.Context, store objstore.Store) error {
	lineages, unreadable, err := lookup.All(ctx, store, a.filter)
	if err != nil {
		return err
	}
	rows := []walRow{}
	for _, lineage := range lineages {
		coverage, err := wal.New(store).Coverage(ctx, lineage.Lineage)
		if err != nil {
			return err
		}
		for _, t := range coverage.Timelines {
			rows = append(rows, walRowOf(lineage.Lineage, t))
		}
	}
	if err := a.writeWAL(rows); err != nil {
		return err
	}
	return a.complain(unreadable)
}

func (a *app) writeWAL(rows []walRow) error {
	if a.output == formatJSON {
		return a.writeJSON(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "There is no WAL.")
		return nil
	}
	t := newTable(a.out, "LINEAGE", "TIMELINE", "FIRST", "LAST", "SEGMENTS", "STORED", "MISSING")
	for _, r := range rows {
		t.row(r.Lineage, fmt.Sprint(r.Timeline), r.First, r.Last, fmt.Sprint(r.Segments), display.Bytes(r.StoredBytes), r.missing())
	}
	return t.Flush()
}

func walRowOf(lineage string, t wal.Timeline) walRow {
	r := walRow{
		Lineage: lineage, Timeline: t.ID, First: t.First.Name(), Last: t.Last.Name(), Segments: t.Segments, StoredBytes: t.Bytes,
		From: t.First.Start(), To: t.Last.End(), Holes: []walHole{}, Partial: t.Partial,
	}
	for _, hole := range t.Holes {
		r.Holes = append(r.Holes, walHole{hole.First.Name(), hole.Last.Name()})
	}
	return r
}

func (r walRow) missing() string {
	var parts []string
	for _, hole := range r.Holes {
		if hole.First == hole.Last {
			parts = append(parts, hole.First)
			continue
		}
		parts = append(parts, hole.First+" to "+hole.Last)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

const walGetName = "get"

// holePatience is how long a segment may come later than those after it.
const holePatience = 20 * time.Second

func (a *app) walGetCommand() *cobra.Command {
	g := walget.Getter{Patience: holePatience}
	until := ""
	command := &cobra.Command{
		Use:   walGetName + " NAME PATH",
		Short: "Fetch one file of the archive (restore_command)",
		Long: "Fetch one file of the archive to PATH, as restore_command must. Exit status 1 says that the file is not in the archive: PostgreSQL " +
			"takes that for the end of the archive. 200 says that this is unknown: PostgreSQL then stops recovery with an error, instead of taking it for the end.",
		Args: cobra.ExactArgs(2),
		RunE: a.run(func(ctx context.Context, store objstore.Store, args []string) error {
			// A crash of this program must not look like a status that PostgreSQL takes for the end: a signal doesn't.
			debug.SetTraceback("crash")
			g.Store = store
			if err := endOf(&g, until); err != nil {
				return err
			}
			if g.Lineage = a.filter.Lineage; g.Lineage == "" {
				lineage, err := lookup.Only(ctx, store, a.filter)
				if err != nil {
					return err
				}
				g.Lineage = lineage.Lineage
			}
			err := g.Get(ctx, args[0], args[1])
			if errors.Is(err, objstore.ErrNotFound) {
				return fmt.Errorf("%w: there is no lineage %s in the repository", lookup.ErrNotThere, g.Lineage)
			}
			return err
		}),
	}
	command.Flags().StringVar(&g.Spool, "spool", "", "folder for segments that are fetched ahead; if not set, none are")
	command.Flags().IntVar(&g.Ahead, "ahead", 8, "how many segments to fetch ahead into the spool")
	command.Flags().StringVar(&g.Last, "last", "", "last segment that recovery shall read; if not set, all there are")
	command.Flags().StringVar(&g.Least, "least", "", "segment up to which the archive must not end; if not set, it may end anywhere")
	command.Flags().StringVar(&until, "until", "", "LSN within --last where recovery shall end; if not set, at its end")
	return command
}

// endOf checks where recovery shall end.
func endOf(g *walget.Getter, until string) (err error) {
	for flag, name := range map[string]string{"--last": g.Last, "--least": g.Least} {
		if name == "" {
			continue
		}
		if _, err := postgres.ParseSegment(name, postgres.MinSegSize); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if until == "" {
		return nil
	}
	if g.Until, err = postgres.ParseLSN(until); err != nil || g.Last == "" {
		return fmt.Errorf("--until %q must be an LSN such as 16/B374D848, and needs --last", until)
	}
	return nil
}
