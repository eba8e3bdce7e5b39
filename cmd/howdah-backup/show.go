package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/datadir"
	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr/bucket"
	"howdah.dev/howdah/pkg/postgres"
)

// shown is one backup, as JSON.
type shown struct {
	backup.Header
	Tablespaces []datadir.Tablespace `json:"tablespaces"`
	Window      window               `json:"window"`
	Files       []shownFile          `json:"files,omitempty"`
}

// window is what can be restored from a backup: any point in it.
type window struct {
	From     time.Time    `json:"from"`
	FromLSN  postgres.LSN `json:"fromLSN"`
	To       time.Time    `json:"to"` // of the last commit that is known
	ToLSN    postgres.LSN `json:"toLSN"`
	Timeline uint32       `json:"timeline"`
	FirstWAL string       `json:"firstWAL,omitempty"`
	LastWAL  string       `json:"lastWAL,omitempty"`
	Segments int64        `json:"segments"`
	Missing  string       `json:"missing,omitempty"` // the segment at which it ends early
	Whole    bool         `json:"whole"`             // the WAL that the backup itself needs is there
}

type shownFile struct {
	Path     string      `json:"path"`
	Kind     backup.Kind `json:"kind"`
	Mode     string      `json:"mode"`
	Size     int64       `json:"size"`
	Modified time.Time   `json:"modified"`
	Link     string      `json:"link,omitempty"`
}

func (a *app) showCommand() *cobra.Command {
	files := false
	command := &cobra.Command{
		Use:   "show BACKUP",
		Short: "Show the content of a backup, and what can be restored from it",
		Args:  cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, store objstore.Store, args []string) error {
			return a.show(ctx, store, args[0], files)
		}),
	}
	command.Flags().BoolVar(&files, "files", false, "also list its files")
	return command
}

func (a *app) show(ctx context.Context, store objstore.Store, id string, files bool) error {
	name, err := lookup.Find(ctx, store, a.filter, id)
	if err != nil {
		return err
	}
	manifest, err := backup.ReadManifest(ctx, store, name.Lineage, name.ID)
	if err != nil {
		return err
	}
	s := shown{Header: manifest.Header, Tablespaces: datadir.Tablespaces(manifest)}
	s.Cluster.Secrets = backup.WithoutData(s.Cluster.Secrets)
	if s.Window, err = windowOf(ctx, store, &manifest.Header); err != nil {
		return err
	}
	if files {
		s.Files = filesOf(manifest)
	}
	if a.output == formatJSON {
		return a.writeJSON(s)
	}
	t := newTable(a.out)
	for _, row := range s.rows() {
		t.row(row...)
	}
	if err := t.Flush(); err != nil || !files {
		return err
	}
	fmt.Fprintln(a.out)
	return a.listFiles(s.Files)
}

func windowOf(ctx context.Context, store objstore.Store, header *backup.Header) (window, error) {
	reach, err := bucket.Reach(ctx, store, header)
	if err != nil {
		return window{}, err
	}
	w := window{
		From: header.StopTime, FromLSN: header.StopLSN, To: reach.LastKnown(), ToLSN: reach.EndLSN, Timeline: reach.Timeline,
		FirstWAL: nameOf(reach.First()), LastWAL: nameOf(reach.Last()), Segments: reach.Segments(), Missing: nameOf(reach.Missing), Whole: reach.Covers(),
	}
	return w, nil
}

// nameOf a segment; empty for none.
func nameOf(segment postgres.Segment) string {
	if segment.SegSize == 0 {
		return ""
	}
	return segment.Name()
}

func filesOf(m *backup.Manifest) []shownFile {
	all := make([]shownFile, 0, len(m.Files))
	for _, f := range m.Files {
		all = append(all, shownFile{Path: f.Path, Kind: f.Kind, Mode: fmt.Sprintf("%04o", f.Mode), Size: f.Size, Modified: f.MTime, Link: f.Link})
	}
	return all
}

func (a *app) listFiles(files []shownFile) error {
	t := newTable(a.out, "KIND", "MODE", "SIZE", "MODIFIED", "PATH")
	for _, f := range files {
		path := f.Path
		if f.Link != "" {
			path += " -> " + f.Link
		}
		t.row(string(f.Kind), f.Mode, fmt.Sprint(f.Size), display.Second(f.Modified), path)
	}
	return t.Flush()
}

// printable keeps a text in its line and column.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

func (s *shown) rows() [][]string {
	cluster := strings.TrimPrefix(s.Cluster.Namespace+"/"+s.Cluster.Name, "/")
	rows := [][]string{
		{"Backup", s.ID},
		{"Lineage", s.Lineage},
		{"Cluster", cluster + " (UID " + s.Cluster.UID + ")"},
		{"Type", s.kind()},
		{"PostgreSQL", s.PGVersion + s.checksums()},
		{"Started", display.Time(s.StartTime) + " at LSN " + s.StartLSN.String()},
		{"Finished", fmt.Sprintf("%s at LSN %s, timeline %d", display.Time(s.StopTime), s.StopLSN, s.Timeline)},
		{"Content", fmt.Sprintf("%s in %d files", display.Bytes(s.Totals.LogicalBytes), s.Totals.Files)},
		{"Stored", s.stored()},
		{"WAL needed", fmt.Sprintf("%s to %s: %s", s.WAL.First, s.WAL.Last, s.Window.whole())},
		{"Recovery", s.Window.String()},
	}
	for _, secret := range s.Cluster.Secrets {
		rows = append(rows, []string{"Logins", fmt.Sprintf("%s (Secret %s)", secret.Purpose, secret.Name)})
	}
	for _, t := range s.Tablespaces {
		rows = append(rows, []string{"Tablespace", t.OID + " " + printable(t.Location)})
	}
	if s.Damage != nil {
		rows = append(rows, []string{"Damaged pages", fmt.Sprintf("%d, as they were in the database", s.Damage.Count)})
		for _, page := range s.Damage.Pages {
			rows = append(rows, []string{"", fmt.Sprintf("block %d of %s", page.Block, printable(page.File))})
		}
	}
	return rows
}

func (s *shown) kind() string {
	if s.Why != "" {
		return fmt.Sprintf("%s, instead of incremental: %s", s.Type, s.Why)
	}
	if s.Parent == "" {
		return string(s.Type)
	}
	return fmt.Sprintf("%s, based on %s", s.Type, s.Parent)
}

func (s *shown) checksums() string {
	if s.DataChecksums {
		return ", page checksums were checked"
	}
	return ", without page checksums"
}

// stored tells the packs of this backup from those that it shares.
func (s *shown) stored() string {
	own, others, bytes := 0, 0, int64(0)
	for _, pack := range s.Packs {
		if pack.Backup == s.ID {
			own++
			continue
		}
		others++
		bytes += pack.Size
	}
	text := fmt.Sprintf("%s in %d packs", display.Bytes(s.Totals.StoredBytes), own)
	if others > 0 {
		text += fmt.Sprintf(", and parts of %d packs (%s) of other backups", others, display.Bytes(bytes))
	}
	return text
}

func (w window) whole() string {
	if w.Whole {
		return "complete"
	}
	return "INCOMPLETE"
}

func (w window) String() string {
	switch {
	case !w.Whole && w.Missing != "":
		return "impossible: WAL segment " + w.Missing + " is missing"
	case !w.Whole:
		return "impossible: the WAL ends too early"
	}
	text := fmt.Sprintf("%s to %s (LSN %s to %s, timeline %d, %d segments)",
		display.Time(w.From), display.Time(w.To), w.FromLSN, w.ToLSN, w.Timeline, w.Segments)
	if w.Missing != "" {
		text += "; segment " + w.Missing + " is missing, but there is WAL after it"
	}
	return text
}
