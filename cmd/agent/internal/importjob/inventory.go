package importjob

import "slices"

// Inventory is what the source has.
type Inventory struct {
	Major     int
	Version   string
	Superuser bool // whom we log in as is one
	// Passwords could be read.
	Passwords   bool
	Roles       []Role
	Memberships []Membership
	Databases   []Database
	Settings    []Setting
	// Replication is what only an online import asks.
	Replication Replication
}

// Replication is what the source has for logical replication.
type Replication struct {
	WALLevel  string
	Standby   bool
	Allowed   bool // to whom we log in as
	FreeSlots int
}

// Role of the source.
type Role struct {
	Name                                                                string
	Superuser, Inherit, CreateRole, CreateDB, Login, Replication, ByRLS bool
	Limit                                                               int
	ValidUntil, Comment                                                 string
	Password                                                            string // its verifier; empty: none, or not readable
}

// Membership of one role in another. Inherit and Set are known from 16 on.
type Membership struct {
	Group, Member       string
	Admin, Inherit, Set bool
}

// Setting of a role, of a database, of a role in a database, or of all roles.
type Setting struct {
	Database, Role string
	Values         []string // name=value
}

// Database of the source.
type Database struct {
	Name, Owner, Encoding, Collate, Ctype, Provider, Locale, Rules, Comment string
	Limit                                                                   int
	Template, Connectable                                                   bool
	// OwnACL: somebody has changed who may do what, and ACL is what is left. Otherwise everybody may connect.
	OwnACL bool
	ACL    []Grant

	Extensions  []string
	Tables      []Table
	Collations  []Collation
	Tablespaces []string
	// Subscriptions and Publications by name.
	Subscriptions, Publications []string
	LargeObjectBytes            int64
	LargeObjects                int64
	MayCreate                   bool     // a publication
	Sharing                     []string // others who have sessions as the role that we log in as
	HiddenLargeObjects          int64    // that we can't read
	UserMappings                int64
	// all are the tables before those were taken out that stay behind, and schemas those that there are.
	all     []Table
	schemas []string
}

// Grant of a right in a database. An empty role is PUBLIC.
type Grant struct {
	Role, Right string
	Option      bool
}

// Table is a relation that may have data.
type Table struct {
	Schema, Name, Kind string
	Bytes              int64 // of the table alone
	TotalBytes         int64 // with its indexes
	Readable           bool
	RowSecurity        bool // it hides rows from us
	OfExtension        bool
	// Key: rows can be told apart, so that they can be changed while they are published.
	Key      bool
	Unlogged bool
	Owned    bool // by us, or by a role that we are a member of
	Empty    bool // it is imported without its data
	Fires    bool // it has triggers that fire when changes are applied by replication
}

// Collation of the C library that a database needs: a locale of it, or one that initdb finds on its system.
type Collation struct {
	Name, Collate, Ctype string
	System               bool
}

// relation kinds of pg_class
const (
	kindTable        = "r"
	kindPartitioned  = "p"
	kindMaterialized = "m"
	kindForeign      = "f"
	kindSequence     = "S"
)

func (t Table) String() string { return t.Schema + "." + t.Name }

// without is a database but for what stays behind. Data that stays behind leaves the table, with no bytes.
func (d Database) without(schemas, tables, data []string) Database {
	d.all = d.Tables
	d.Tables = slices.DeleteFunc(slices.Clone(d.Tables), func(t Table) bool {
		return slices.Contains(schemas, t.Schema) || slices.Contains(tables, t.String())
	})
	for i := range d.Tables {
		if slices.Contains(data, d.Tables[i].String()) {
			d.Tables[i].Bytes, d.Tables[i].TotalBytes, d.Tables[i].RowSecurity = 0, 0, false // pg_dump locks it all the same
			d.Tables[i].Empty = true
		}
	}
	return d
}

// published are the tables that an online import follows: all whose rows are copied. Each partition is one.
func (d Database) published() (tables []Table) {
	for _, t := range d.Tables {
		if t.Kind == kindTable && !t.OfExtension && !t.Empty {
			tables = append(tables, t)
		}
	}
	return tables
}

// dataBytes are those to copy.
func (d Database) dataBytes() int64 {
	total := d.LargeObjectBytes
	for _, t := range d.Tables {
		total += t.Bytes
	}
	return total
}

// totalBytes with the indexes.
func (d Database) totalBytes() int64 {
	total := d.LargeObjectBytes
	for _, t := range d.Tables {
		total += t.TotalBytes
	}
	return total
}

// large are the tables of at least this many bytes, the largest first. Each is copied over a connection of its own.
func (d Database) large(least int64) []Table {
	var found []Table
	for _, t := range d.Tables {
		if t.Kind == kindTable && !t.OfExtension && t.Bytes >= least {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b Table) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	return found[:min(len(found), mostLarge)]
}
