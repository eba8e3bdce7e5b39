package importjob

import (
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// oldestSource is the oldest major that this was written for; pg_dump itself goes further back.
const oldestSource = 10

// spare is what the server needs on a large volume beside the data, most of it for WAL. On a small one it keeps less WAL.
const spare = 2 << 30

// maxWAL is max_wal_size on a volume with this much space.
func maxWAL(free int64) string { return fmt.Sprintf("%dMB", min(max(free>>20/16, 64), 1024)) }

// target is what the new server and its volume have.
type target struct {
	Major      int
	Free       int64
	Extensions []string // that can be created
	Collations []string // of the system
	// Missing are locales of the C library that a collation needs and that the image doesn't have, as database.collation.
	Missing []string
}

// verdict is what an import says before it begins.
type verdict struct{ Refusals, Warnings []string }

func (v *verdict) refuse(format string, args ...any) {
	v.Refusals = append(v.Refusals, fmt.Sprintf(format, args...))
}
func (v *verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// powerful are the roles whose members can become superusers.
var powerful = []string{postgres.RoleSuperuser, "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"}

// judge says what stands against an import, and what comes over otherwise than it was.
func judge(inv *Inventory, task agentapi.ImportJob, t target) verdict {
	v := verdict{}
	if inv.Major > t.Major {
		v.refuse("The source runs PostgreSQL %s, which is newer than the cluster: create the PostgresCluster with spec.version: %d or later.", inv.Version, inv.Major)
	}
	if inv.Major < oldestSource {
		v.refuse("The source runs PostgreSQL %s, and %d is the oldest that can be imported: upgrade the source first.", inv.Version, oldestSource)
	}
	if len(v.Refusals) > 0 {
		return v
	}
	v.judgeNames(inv, task)
	v.judgeRoles(inv)
	for _, d := range inv.Databases {
		v.judgeRights(d, inv.Superuser)
		v.judgeContents(d, task, t)
	}
	v.judgeSpace(inv, t)
	if task.Online != nil {
		v.judgeOnline(inv)
		v.judgeOwnRole(inv, task)
	}
	return v
}

func (v *verdict) judgeNames(inv *Inventory, task agentapi.ImportJob) {
	for _, wanted := range task.Databases {
		found := slices.IndexFunc(inv.Databases, func(d Database) bool { return d.Name == wanted.Name })
		if found < 0 {
			v.refuse("The source has no database %s: correct spec.bootstrap.import.databases in a new PostgresCluster.", wanted.Name)
		}
	}
	if !slices.ContainsFunc(inv.Databases, func(d Database) bool { return d.Name == task.Database }) {
		v.refuse("The source has no database %s: set spec.bootstrap.import.database of a new PostgresCluster to one of %s.", task.Database, some(databaseNames(inv)))
	}
	if !slices.ContainsFunc(inv.Roles, func(r Role) bool { return r.Name == task.Owner }) {
		owner := ""
		for _, d := range inv.Databases {
			if d.Name == task.Database && d.Owner != postgres.RoleSuperuser {
				owner = ", such as " + d.Owner
			}
		}
		v.refuse("The source has no role %s: set spec.bootstrap.import.owner of a new PostgresCluster to the role that the application logs in as%s.", task.Owner, owner)
	}
}

func (v *verdict) judgeRoles(inv *Inventory) {
	var super []string
	for _, r := range inv.Roles {
		switch {
		case r.Name == postgres.RoleSuperuser && !r.Superuser:
			v.warn("Role postgres is not a superuser on the source, but is one here: what it owns, such as functions with SECURITY DEFINER, gets the rights of a superuser.")
		case r.Name != postgres.RoleSuperuser && r.Superuser:
			super = append(super, r.Name)
		}
	}
	if len(super) > 0 {
		v.warn("These roles are imported without SUPERUSER: %s.", some(super))
	}
	for _, m := range inv.Memberships {
		if slices.Contains(powerful, m.Group) && m.Member != postgres.RoleSuperuser {
			v.warn("Role %s is no longer a member of %s, which is as powerful as a superuser.", m.Member, m.Group)
		}
	}
	if without := withoutPassword(inv); len(without) > 0 {
		v.warn("These roles have no password here, because the source doesn't show it or has it as MD5: %s.", some(without))
	}
}

// withoutPassword are the roles that may log in and whose password doesn't come over.
func withoutPassword(inv *Inventory) (names []string) {
	for _, r := range inv.Roles {
		if r.Login && !strings.HasPrefix(r.Password, "SCRAM-SHA-256$") && carried(r.Name) && (r.Password != "" || !inv.Passwords) {
			names = append(names, r.Name)
		}
	}
	return names
}

// carried: a role is created with its rights. The others are the server's own, or Howdah's.
func carried(name string) bool {
	return name != postgres.RoleSuperuser && !strings.HasPrefix(name, "pg_") && !strings.HasPrefix(name, "howdah_")
}

func (v *verdict) judgeRights(d Database, superuser bool) {
	const grant = "grant the user of spec.bootstrap.import.source pg_read_all_data (from 14 on), or SELECT on them"
	if !d.Connectable {
		v.refuse("The user of spec.bootstrap.import.source can't connect to database %s: grant it CONNECT, or leave the database out of spec.bootstrap.import.databases.", d.Name)
		return
	}
	var hidden, filtered []string
	for _, t := range d.Tables {
		if !t.Readable && t.Kind != kindForeign {
			hidden = append(hidden, t.String())
		}
		if t.RowSecurity {
			filtered = append(filtered, t.String())
		}
	}
	if len(hidden) > 0 {
		v.refuse("Database %s: these can't be read: %s; %s, or leave them out with excludeTables.", d.Name, some(hidden), grant)
	}
	if len(filtered) > 0 {
		v.refuse("Database %s: row-level security hides rows of these from the user of spec.bootstrap.import.source: %s; give it BYPASSRLS.", d.Name, some(filtered))
	}
	if d.HiddenLargeObjects > 0 && !superuser {
		v.refuse("Database %s has %d large objects that the user of spec.bootstrap.import.source can't read: log in as a superuser or as a member of their owner.", d.Name, d.HiddenLargeObjects)
	}
	if d.UserMappings > 0 && !superuser {
		v.warn("Database %s: user mappings of foreign servers may be imported without their passwords, which only a superuser sees.", d.Name)
	}
}

func (v *verdict) judgeContents(d Database, task agentapi.ImportJob, t target) {
	var missing []string
	for _, name := range d.Extensions {
		if !slices.Contains(task.ExcludeExtensions, name) && !slices.Contains(t.Extensions, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		v.refuse("Database %s uses extensions that the image doesn't have: %s; set spec.image to an image that has them, or name them in spec.bootstrap.import.excludeExtensions if nothing needs them.", d.Name, some(missing))
	}
	var locales []string
	for _, c := range d.Collations {
		if c.System && !slices.Contains(t.Collations, c.Name) || !c.System && slices.Contains(t.Missing, d.Name+"."+c.Name) {
			locales = append(locales, c.Name)
		}
	}
	if len(locales) > 0 {
		v.refuse("Database %s uses collations of locales that the image doesn't have: %s; set spec.image to an image that has them.", d.Name, some(locales))
	}
	for _, kind := range []struct {
		names  []string
		format string
	}{
		{d.Tablespaces, "Database %s: the contents of these tablespaces are imported onto the one volume: %s."},
		{d.Subscriptions, "Database %s: these subscriptions are not imported, because two servers would consume one slot: %s."},
		{slices.DeleteFunc(slices.Clone(d.Publications), func(name string) bool { return strings.HasPrefix(name, agentapi.OnlineImportPrefix) }), "Database %s: these publications are imported, but not the slots of their subscribers: %s."},
	} {
		if len(kind.names) > 0 {
			v.warn(kind.format, d.Name, some(kind.names))
		}
	}
	v.judgeExclusions(d, task)
}

// judgeExclusions finds names that fit nothing: what was meant would come over.
func (v *verdict) judgeExclusions(d Database, task agentapi.ImportJob) {
	for _, wanted := range task.Databases {
		if wanted.Name != d.Name {
			continue
		}
		for _, name := range slices.Concat(wanted.ExcludeTables, wanted.ExcludeTableData) {
			if !slices.ContainsFunc(d.all, func(t Table) bool { return t.String() == name }) {
				v.refuse("Database %s has no table %s, which spec.bootstrap.import.databases leaves out: correct it in a new PostgresCluster.", d.Name, name)
			}
		}
		for _, name := range wanted.ExcludeSchemas {
			if !slices.Contains(d.schemas, name) {
				v.refuse("Database %s has no schema %s, which spec.bootstrap.import.databases leaves out: correct it in a new PostgresCluster.", d.Name, name)
			}
		}
	}
}

// judgeSpace: what is copied takes no more space than it does on the source, as there is no bloat in it.
func (v *verdict) judgeSpace(inv *Inventory, t target) {
	var data, sorting int64
	for _, d := range inv.Databases {
		data += d.totalBytes()
		for _, table := range d.Tables {
			sorting = max(sorting, table.TotalBytes-table.Bytes) // an index is sorted in files as large as it
		}
	}
	if needed := data + sorting + min(spare, t.Free/4); t.Free > 0 && needed > t.Free {
		v.refuse("The import takes up to %s on the volume, which has %s left: set spec.storage.size of a new PostgresCluster to %dGi or more.",
			size(needed), size(t.Free), (data+sorting+spare)*6/5>>30+1)
	}
}

func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// some are the first of many names.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func databaseNames(inv *Inventory) (names []string) {
	for _, d := range inv.Databases {
		names = append(names, d.Name)
	}
	return names
}
