package agentapi

import "time"

// Declared are roles and databases that the agent of the primary keeps as they are written here. What is no longer
// written here stays as it is.
type Declared struct {
	Roles     []Role     `json:"roles,omitempty"`
	Databases []Database `json:"databases,omitempty"`
}

// Role that the cluster declares.
type Role struct {
	Name            string    `json:"name"`
	Absent          bool      `json:"absent,omitempty"`
	Login           bool      `json:"login,omitempty"`
	CreateDB        bool      `json:"createDB,omitempty"`
	CreateRole      bool      `json:"createRole,omitempty"`
	Inherit         bool      `json:"inherit,omitempty"`
	ConnectionLimit int       `json:"connectionLimit"`
	ValidUntil      time.Time `json:"validUntil,omitzero"`
	InRoles         []string  `json:"inRoles,omitempty"`
	// Password: it is in RolesFile. Else the role keeps the one that it has.
	Password bool `json:"password,omitempty"`
	// Replication and BypassRLS; nil: a role that is there keeps what it has.
	Replication *bool `json:"replication,omitempty"`
	BypassRLS   *bool `json:"bypassRLS,omitempty"`
	// Parameters that its sessions start with, and no others; empty: they are left alone.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Passwords of declared roles by name, of subscriptions by PasswordKey, and the one of LDAPPasswordKey, as they appear in RolesFile, and beside them
// what is a person's own for TLS.
type Passwords map[string][]byte

// Database that the cluster declares.
type Database struct {
	Name   string `json:"name"`
	Absent bool   `json:"absent,omitempty"`
	// Owner; empty: the application's role for a new database, and whoever it is for one that is there.
	Owner      string      `json:"owner,omitempty"`
	Extensions []Extension `json:"extensions,omitempty"`
	// Encoding, LocaleProvider (builtin, icu or libc), Locale and Template of a new one; empty: the server's choice.
	Encoding       string `json:"encoding,omitempty"`
	LocaleProvider string `json:"localeProvider,omitempty"`
	Locale         string `json:"locale,omitempty"`
	Template       string `json:"template,omitempty"`
	// ConnectionLimit; nil: whatever it has.
	ConnectionLimit *int          `json:"connectionLimit,omitempty"`
	Schemas         []Schema      `json:"schemas,omitempty"`
	Publications    []Publication `json:"publications,omitempty"`
	// Subscriptions to publications of other servers.
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
}

// Schema in a declared database.
type Schema struct {
	Name string `json:"name"`
	// Owner; empty: the owner of the database for a new one, and whoever it is for one that is there.
	Owner  string        `json:"owner,omitempty"`
	Grants []SchemaGrant `json:"grants,omitempty"`
}

// SchemaGrant is what a role may do in a schema.
type SchemaGrant struct {
	Role string `json:"role"`
	// Write: not only read.
	Write bool `json:"write,omitempty"`
}

// Publication in a declared database. Tables are schema.table.
type Publication struct {
	Name      string   `json:"name"`
	Absent    bool     `json:"absent,omitempty"`
	AllTables bool     `json:"allTables,omitempty"`
	Tables    []string `json:"tables,omitempty"`
	Schemas   []string `json:"schemas,omitempty"`
}

// Subscription in a declared database.
type Subscription struct {
	Name     string `json:"name"`
	Absent   bool   `json:"absent,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	// Publisher as a connection string without the password, and Publications there.
	Publisher    []ConnectionOption `json:"publisher,omitempty"`
	Publications []string           `json:"publications,omitempty"`
	// Owner; empty: that of the database.
	Owner string `json:"owner,omitempty"`
	// Slot at the publisher; empty: the name of the subscription.
	Slot string `json:"slot,omitempty"`
	// NoCopy: the rows that are there are not copied.
	NoCopy   bool `json:"noCopy,omitempty"`
	Failover bool `json:"failover,omitempty"`
}

// ConnectionOption is a keyword of a connection string, and its value.
type ConnectionOption struct {
	Keyword string `json:"keyword"`
	Value   string `json:"value"`
}

// PasswordKey is where the password of a subscription stands in RolesFile. No role has such a name.
func PasswordKey(database, subscription string) string { return database + "/" + subscription }

// LDAPPasswordKey is where the password stands with which rules of pg_hba.conf search a directory. No role has such a name.
const LDAPPasswordKey = "/ldap"

// Extension in a declared database.
type Extension struct {
	Name    string `json:"name"`
	Schema  string `json:"schema,omitempty"`
	Version string `json:"version,omitempty"`
}

// Hash identifies what is declared; that of nothing is empty.
func (d *Declared) Hash() string {
	if d == nil {
		return ""
	}
	return hash(d)
}

// DeclaredStatus is what became of it, on the primary.
type DeclaredStatus struct {
	// Hash of what was declared when it was last seen to.
	Hash string `json:"hash"`
	// Problems say what is not as declared, a sentence each that begins with whose it is. Empty: all is.
	Problems []string `json:"problems,omitempty"`
}
