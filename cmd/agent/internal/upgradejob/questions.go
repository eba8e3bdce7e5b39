package upgradejob

import "howdah.dev/howdah/pkg/agentapi"

// inspection is one question to a running database. Each row of the answer is one finding: its text goes into message.
type inspection struct {
	check    string
	severity string
	cluster  bool // about the cluster, not about one database
	applies  func(from, to int) bool
	query    string
	message  string
	// consented says that a person accepts it, so that it is a warning only; nil: nobody can.
	consented func(target) bool
}

// severityFor an upgrade.
func (i inspection) severityFor(to target) string {
	if i.consented != nil && i.consented(to) {
		return severityWarning
	}
	return i.severity
}

func always(int, int) bool { return true }

// carriesReplication: logical slots and subscriptions are carried over, for which pg_upgrade has conditions.
func carriesReplication(from, _ int) bool { return from >= 17 }

// inspections are all questions that SQL alone can answer.
var inspections = []inspection{
	{
		check: "PreparedTransactions", severity: severityError, cluster: true, applies: always,
		query:   "SELECT gid || ' in ' || database FROM pg_catalog.pg_prepared_xacts ORDER BY 1",
		message: "The prepared transaction %s would be lost: COMMIT PREPARED or ROLLBACK PREPARED it first.",
	}, {
		check: "InvalidDatabase", severity: severityError, cluster: true, applies: always,
		query:   "SELECT datname FROM pg_catalog.pg_database WHERE datconnlimit = -2",
		message: "Database %s was dropped only in part: DROP DATABASE it again first.",
	}, {
		check: "ConnectionsNotAllowed", severity: severityError, cluster: true, applies: always,
		query: "SELECT datname::text FROM pg_catalog.pg_database WHERE NOT datallowconn AND datname <> 'template0' AND datconnlimit <> -2 ORDER BY 1",
		message: "Database %s allows no connections, and pg_upgrade doesn't upgrade what it can't connect to: run ALTER DATABASE ... ALLOW_CONNECTIONS true, " +
			"or DROP DATABASE it.",
	}, {
		check: "ConnectMissing", severity: severityError, cluster: true, applies: always,
		query: `SELECT datname::text FROM pg_catalog.pg_database WHERE datallowconn AND datconnlimit <> -2
			AND (datconnlimit = 0 OR NOT pg_catalog.has_database_privilege(oid, 'CONNECT')) ORDER BY 1`,
		message: "Database %s can't be checked, as role " + agentapi.UpgradeRole + " may not connect to it: run GRANT CONNECT ON DATABASE ... TO " + agentapi.UpgradeRole +
			", and ALTER DATABASE ... CONNECTION LIMIT if that is 0.",
	}, {
		check: "TemplateDatabase", severity: severityError, cluster: true, applies: always,
		query: `SELECT 'template0 allows connections: run ALTER DATABASE template0 ALLOW_CONNECTIONS false'
			FROM pg_catalog.pg_database WHERE datname = 'template0' AND datallowconn
			UNION ALL
			SELECT name || ' does not exist: run CREATE DATABASE ' || name || ' TEMPLATE ' || other FROM (VALUES
				('template0', 'template1 IS_TEMPLATE true ALLOW_CONNECTIONS false'), ('template1', 'template0 IS_TEMPLATE true')) AS t (name, other)
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = name)
			ORDER BY 1`,
		message: "pg_upgrade needs template0 and template1 as initdb creates them. Database %s.",
	}, {
		check: "NotNullInheritance", severity: severityError, applies: func(from, to int) bool { return from < 18 && to >= 18 },
		query: `SELECT DISTINCT pg_catalog.format('%I.%I.%I', n.nspname, c.relname, child.attname)
			FROM pg_catalog.pg_inherits i
			JOIN pg_catalog.pg_attribute parent ON parent.attrelid = i.inhparent AND parent.attnum > 0 AND parent.attnotnull
			JOIN pg_catalog.pg_attribute child ON child.attrelid = i.inhrelid AND child.attname = parent.attname AND NOT child.attnotnull
			JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 1`,
		message: "Column %s may be null, and the column of the table that it is inherited from may not, which 18 doesn't allow: " +
			"run ALTER TABLE ... ALTER COLUMN ... SET NOT NULL, or DROP NOT NULL of the inherited one.",
	}, {
		check: "LogicalSlots", severity: severityError, cluster: true, applies: func(from, _ int) bool { return from < 17 },
		query:     "SELECT slot_name::text FROM pg_catalog.pg_replication_slots WHERE slot_type = 'logical'",
		message:   "The logical replication slot %s is lost with the upgrade, and its subscriber has to start over: drop it first, or consent with spec.dropLogicalSlots: true.",
		consented: func(to target) bool { return to.dropsSlots },
	}, {
		check: "LogicalSlotInvalid", severity: severityError, cluster: true, applies: carriesReplication,
		query: `SELECT slot_name::text || ' (' || invalidation_reason || ')' FROM pg_catalog.pg_replication_slots
			WHERE slot_type = 'logical' AND NOT temporary AND invalidation_reason IS NOT NULL ORDER BY 1`,
		message: "The logical replication slot %s can't be used any more, and pg_upgrade refuses it: drop it first.",
	}, {
		check: "LogicalSlotLags", severity: severityError, cluster: true, applies: carriesReplication,
		query: `SELECT slot_name::text FROM pg_catalog.pg_replication_slots
			WHERE slot_type = 'logical' AND NOT temporary AND NOT active AND invalidation_reason IS NULL
			AND pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), confirmed_flush_lsn) > 0 ORDER BY 1`,
		message: "No client receives from the logical replication slot %s, which is behind, and pg_upgrade refuses a slot whose client has not received everything: " +
			"have its client connected until the cluster is stopped, or drop the slot.",
	}, {
		check: "Subscriptions", severity: severityWarning, applies: func(from, _ int) bool { return from < 17 },
		query: `SELECT s.subname::text FROM pg_catalog.pg_subscription s
			JOIN pg_catalog.pg_database d ON d.oid = s.subdbid AND d.datname = pg_catalog.current_database() ORDER BY 1`,
		message: "The subscription %s is disabled by the upgrade, and forgets which tables it has copied. Once enabled, it skips their changes silently until it is refreshed. " +
			"So either let nothing write to the published tables at the publisher from before the upgrade until you have run ALTER SUBSCRIPTION ... ENABLE and then " +
			"ALTER SUBSCRIPTION ... REFRESH PUBLICATION WITH (copy_data = false); or drop it, empty its tables, and create it again.",
	}, {
		check: "SubscriptionCopying", severity: severityError, applies: carriesReplication,
		query: `SELECT s.subname::text || ' of table ' || r.srrelid::pg_catalog.regclass::text FROM pg_catalog.pg_subscription_rel r
			JOIN pg_catalog.pg_subscription s ON s.oid = r.srsubid WHERE r.srsubstate NOT IN ('i', 'r') ORDER BY 1`,
		message: "The first copy by subscription %s is under way, which pg_upgrade can't carry over: wait until its srsubstate in pg_subscription_rel is r, or drop the subscription.",
	}, {
		check: "SubscriptionOrigin", severity: severityError, cluster: true, applies: carriesReplication,
		query: `SELECT s.subname::text || ' in database ' || d.datname FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_origin WHERE roname = 'pg_' || s.oid) ORDER BY 1`,
		message: "The subscription %s has no replication origin, so how far it is isn't known, and pg_upgrade refuses it: drop it, and create it again.",
	}, {
		check: "Tablespace", severity: severityError, cluster: true, applies: always,
		query: "SELECT spcname::text FROM pg_catalog.pg_tablespace WHERE pg_catalog.pg_tablespace_location(oid) LIKE '/%' ORDER BY 1",
		message: "The tablespace %s has its own folder, which the upgrade doesn't have, or would delete with the previous data: move its tables with " +
			"ALTER TABLE ALL IN TABLESPACE ... SET TABLESPACE pg_default in each database, its indexes likewise, then DROP TABLESPACE.",
	}, {
		check: "InPlaceTablespace", severity: severityError, cluster: true, applies: func(_, to int) bool { return to < 19 },
		query: `SELECT spcname::text FROM pg_catalog.pg_tablespace
			WHERE pg_catalog.pg_tablespace_location(oid) LIKE 'pg\_tblspc/%' ORDER BY 1`,
		message: "The tablespace %s is a folder of the data directory, as after a restore, and pg_upgrade can't upgrade it: move its tables with " +
			"ALTER TABLE ALL IN TABLESPACE ... SET TABLESPACE pg_default in each database, its indexes likewise, then DROP TABLESPACE.",
	}, {
		check: "RegTypes", severity: severityError, applies: always,
		query: `SELECT n.nspname || '.' || c.relname || '.' || a.attname || ' (' || t.typname || ')'
			FROM pg_catalog.pg_attribute a
			JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'm', 'i', 'p')
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
			WHERE NOT a.attisdropped AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_t'
			AND t.typname IN ('regproc', 'regprocedure', 'regoper', 'regoperator', 'regconfig', 'regdictionary', 'regnamespace', 'regcollation')
			AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace ORDER BY 1`,
		message: "Column %s has a type that stores object IDs, which change: ALTER its TYPE to text first.",
	}, {
		check: "ACLItems", severity: severityError, applies: func(from, to int) bool { return from < 16 && to >= 16 },
		query: `SELECT n.nspname || '.' || c.relname || '.' || a.attname
			FROM pg_catalog.pg_attribute a
			JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'm', 'i', 'p')
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE NOT a.attisdropped AND n.nspname NOT IN ('pg_catalog', 'information_schema')
			AND a.atttypid IN ('pg_catalog.aclitem'::pg_catalog.regtype, 'pg_catalog.aclitem[]'::pg_catalog.regtype) ORDER BY 1`,
		message: "Column %s is of type aclitem, whose format changed in 16: ALTER its TYPE to text first.",
	},
}
