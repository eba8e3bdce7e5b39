package importjob

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

// fineOnline is a source that can be followed.
func fineOnline() *Inventory {
	inv, _, _ := fine()
	inv.Replication = Replication{WALLevel: "logical", Allowed: true, FreeSlots: 1}
	d := &inv.Databases[0]
	d.MayCreate = true
	d.Tables[0].Key, d.Tables[0].Owned = true, true
	return inv
}

func TestWhatCanNotFollowIsNamedBeforeAnythingBegins(t *testing.T) {
	_, task, here := fine()
	task.Online = &agentapi.OnlineImport{Cluster: "uid"}
	if v := judge(fineOnline(), task, here); len(v.Refusals) > 0 || len(v.Warnings) > 0 {
		t.Fatalf("%+v", v)
	}
	table := func(edit func(*Table)) func(*Inventory) {
		return func(inv *Inventory) { edit(&inv.Databases[0].Tables[0]) }
	}
	for says, edit := range map[string]func(*Inventory){
		"11 is the oldest that can be followed":                        func(inv *Inventory) { inv.Major = 10 },
		"The source is a standby":                                      func(inv *Inventory) { inv.Replication.Standby = true },
		"has wal_level replica: set wal_level to logical":              func(inv *Inventory) { inv.Replication.WALLevel = "replica" },
		"may not replicate: give it REPLICATION":                       func(inv *Inventory) { inv.Replication.Allowed = false },
		"has 0 free replication slots and WAL senders, and the import": func(inv *Inventory) { inv.Replication.FreeSlots = -1 },
		"can't create a publication":                                   func(inv *Inventory) { inv.Databases[0].MayCreate = false },
		"have no primary key that is not deferrable, so that changes":  table(func(t *Table) { t.Key = false }),
		"these tables have triggers that would fire here once more":    table(func(t *Table) { t.Fires = true }),
		"61 databases are to be followed, and 60 can be": func(inv *Inventory) {
			for len(inv.Databases) < mostOnline+1 {
				inv.Databases = append(inv.Databases, Database{Name: "other", Connectable: true, MayCreate: true})
			}
			inv.Replication.FreeSlots = len(inv.Databases)
		},
		"these tables are unlogged":                              table(func(t *Table) { t.Unlogged, t.Key = true, false }),
		"can't publish these tables: public.a; make it a member": table(func(t *Table) { t.Owned = false }),
		"has 7 large objects, which can't be followed":           func(inv *Inventory) { inv.Databases[0].LargeObjects = 7 },
	} {
		inv := fineOnline()
		edit(inv)
		v := judge(inv, task, here)
		if len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0], says) {
			t.Errorf("want %q: %q", says, v.Refusals)
		}
		task := task
		task.Online = nil
		if v := judge(inv, task, here); len(v.Refusals) > 0 {
			t.Errorf("%q is refused without online, too: %q", says, v.Refusals)
		}
	}
}

// The role of the import has to be able to connect until the end, so that whoever else logs in as it can write to the source after the cutover.
func TestAnOnlineImportNeedsARoleThatNobodyElseUses(t *testing.T) {
	for says, edit := range map[string]func(*agentapi.ImportJob, *Inventory){
		"": func(*agentapi.ImportJob, *Inventory) {},
		"The import logs in to the source as clerk, like the application (spec.bootstrap.import.owner), so that the cutover can't keep the application out: create a role": func(task *agentapi.ImportJob, inv *Inventory) {
			task.Source.User = "clerk"
			inv.Databases[0].Sharing = []string{"app (4)"}
		},
		"Others have sessions on the source as reader, the role of the import, which the cutover can't keep out (shop: app (4), psql (1)): create a role": func(_ *agentapi.ImportJob, inv *Inventory) {
			inv.Databases[0].Sharing = []string{"app (4)", "psql (1)"}
		},
	} {
		_, task, here := fine()
		inv := fineOnline()
		task.Source.User = "reader"
		edit(&task, inv)
		if v := judge(inv, task, here); len(v.Refusals) > 0 {
			t.Errorf("without online: %q", v.Refusals)
		}
		task.Online = &agentapi.OnlineImport{Cluster: "uid"}
		if got := strings.Join(judge(inv, task, here).Refusals, "\n"); !strings.HasPrefix(got, says) || (got == "") != (says == "") {
			t.Errorf("got %q, want %q", got, says)
		}
	}
}

func TestTablesWhoseRowsStayBehindNeedNoKey(t *testing.T) {
	_, task, here := fine()
	task.Online = &agentapi.OnlineImport{Cluster: "uid"}
	inv := fineOnline()
	d := inv.Databases[0]
	d.Tables = append(d.Tables, Table{Schema: "public", Name: "log", Kind: kindTable, Readable: true}, Table{Schema: "public", Name: "scratch", Kind: kindTable, Readable: true},
		Table{Schema: "public", Name: "whole", Kind: kindPartitioned, Readable: true}, Table{Schema: "public", Name: "sums", Kind: kindMaterialized, Readable: true})
	inv.Databases[0] = d.without(nil, []string{"public.scratch"}, []string{"public.log"})
	v := judge(inv, task, here)
	if len(v.Refusals) > 0 || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "refresh these materialized views after the cutover: public.sums") {
		t.Errorf("%+v", v)
	}
}

func TestDifferencesOfTablesAreSentences(t *testing.T) {
	here := relations{"r public.a": "id integer", "r public.log": "n integer", "S public.s": "", "p public.whole": "id integer"}
	excluded := agentapi.ImportDatabase{ExcludeSchemas: []string{"stale"}, ExcludeTables: []string{"public.scratch"}, ExcludeTableData: []string{"public.log"}}
	published := []string{"public.a"}
	for _, c := range []struct {
		change func(relations)
		want   []string
	}{
		{func(relations) {}, nil},
		{func(r relations) { r["r public.scratch"], r["r stale.old"] = "n integer", "n integer" }, nil},
		{func(r relations) { r["r public.a"] = "id bigint" }, []string{"Table public.a has other columns on the source"}},
		{func(r relations) { r["S public.later"] = "" }, []string{"Sequence public.later exists on the source only"}},
		{func(r relations) { r["r staler.new"] = "n integer" }, []string{"Table staler.new exists on the source only"}},
		{func(r relations) { delete(r, "p public.whole") }, []string{"Table public.whole no longer exists on the source"}},
	} {
		there := relations{}
		for name, columns := range here {
			there[name] = columns
		}
		c.change(there)
		got := differences(there, here, published, excluded)
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := differences(here, here, nil, excluded); len(got) != 1 || !strings.Contains(got[0], "Table public.a is not in the publication") {
		t.Errorf("%q", got)
	}
}

func TestNamesOnTheSourceAreThoseOfOneClusterAndOneDatabase(t *testing.T) {
	one := agentapi.OnlineImport{Cluster: "uid"}
	if one.Name("shop") != (agentapi.OnlineImport{Cluster: "uid"}).Name("shop") || one.Name("shop") == one.Name("other") || one.Name("shop") == (agentapi.OnlineImport{Cluster: "uid2"}).Name("shop") {
		t.Error("names are not as they should be")
	}
	if name := one.Name(strings.Repeat("ü", 40)); len(name) > 63 {
		t.Errorf("%s has %d bytes", name, len(name))
	}
}

func TestAVolumeThatWasRolledBackIsNoticedByTheMarkOnTheSource(t *testing.T) {
	now := Copied{Attempt: "second", Looks: 7}
	for mark, reaches := range map[string]bool{
		"second 0": true, "second 6": true, now.mark(): true,
		"second 8": false, "first 3": false, "": false, "second": false, "second x": false, "second 7 8": false,
	} {
		if now.reaches(mark) != reaches {
			t.Errorf("a source with the mark %q: %t", mark, !reaches)
		}
	}
	if (Copied{}).reaches(" 0") {
		t.Error("a copy without an attempt continues")
	}
}

func TestPublicationsOfOnlineImportsAreNotCopied(t *testing.T) {
	w := &Worker{}
	for line, stays := range map[string]bool{
		"3456; 6104 16400 PUBLICATION - howdah_import_0a1b clerk":                     true,
		"3457; 6106 16405 PUBLICATION TABLE odd schema howdah_import_0a1b numbers me": true,
		"3458; 0 0 COMMENT - PUBLICATION howdah_import_0a1b clerk":                    true,
		"3456; 6104 16400 PUBLICATION - reports clerk":                                false,
		"3457; 6106 16405 PUBLICATION TABLE sales reports numbers clerk":              false,
		"215; 1259 16400 TABLE public howdah_import_notes clerk":                      false,
	} {
		if w.staysBehind(line) != stays {
			t.Errorf("%q stays behind: %t", line, !stays)
		}
	}
}
