package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Why a person may not set a parameter. A reason completes "spec.postgresql.parameters can't set …: ".
const (
	whyAddress  = "clients reach the server through its Services, on a port and sockets that Howdah knows"
	whyTLS      = "Howdah makes the server's certificates and renews them"
	whyFiles    = "the files lie where the agent keeps them"
	whyArchive  = "the agent archives WAL; name a backup repository instead"
	whyRecovery = "the agent controls recovery; create a Restore instead"
	whyStandby  = "the agent sets which instance follows which; set spec.instances and spec.synchronous instead"
	whyLog      = "the agent reads the server's log from standard error and writes it as JSON"
	whyLoss     = "another value loses acknowledged writes or hides that they are lost"
	whyBackup   = "without it a backup or a rewind would be wrong"
	whyPassword = "passwords are kept as scram-sha-256 only"
	whyMethod   = "Howdah offers no such way to log in"
	whyAgent    = "the agent supervises the server"
	whyFact     = "PostgreSQL determines it itself and does not read it from a configuration file"
	whyFile     = "it would read settings from another file"
)

// fixed names the parameters that belong to Howdah, and why.
var fixed = map[string]string{
	"listen_addresses": whyAddress, "port": whyAddress, "bonjour": whyAddress, "bonjour_name": whyAddress,

	"data_directory": whyFiles, "config_file": whyFiles, "hba_file": whyFiles, "ident_file": whyFiles,
	"external_pid_file": whyFiles, "stats_temp_directory": whyFiles, "allow_in_place_tablespaces": whyFiles,
	"include": whyFile, "include_dir": whyFile, "include_if_exists": whyFile,

	"archive_mode": whyArchive, "archive_command": whyArchive, "archive_library": whyArchive,
	"restore_command": whyRecovery, "archive_cleanup_command": whyRecovery,
	"recovery_end_command": whyRecovery, "recovery_min_apply_delay": whyRecovery,

	"primary_conninfo": whyStandby, "primary_slot_name": whyStandby, "hot_standby": whyStandby,
	"promote_trigger_file": whyStandby, "synchronous_standby_names": whyStandby, "cluster_name": whyStandby,
	"synchronized_standby_slots": whyStandby,

	"logging_collector": whyLog, "log_destination": whyLog, "log_line_prefix": whyLog, "log_timezone": whyLog,
	"log_directory": whyLog, "log_filename": whyLog, "log_file_mode": whyLog, "log_rotation_age": whyLog,
	"log_rotation_size": whyLog, "log_truncate_on_rotation": whyLog, "log_error_verbosity": whyLog,
	"lc_messages": whyLog, "event_source": whyLog,

	"fsync": whyLoss, "zero_damaged_pages": whyLoss, "ignore_checksum_failure": whyLoss,
	"ignore_invalid_pages": whyLoss, "data_sync_retry": whyLoss,
	"full_page_writes": whyBackup, "wal_log_hints": whyBackup,

	"password_encryption": whyPassword, "db_user_namespace": whyMethod, "gss_accept_delegation": whyMethod,
	"allow_alter_system": whyAgent, "restart_after_crash": whyAgent,

	"block_size": whyFact, "data_checksums": whyFact, "data_directory_mode": whyFact, "debug_assertions": whyFact,
	"huge_pages_status": whyFact, "in_hot_standby": whyFact, "integer_datetimes": whyFact, "is_superuser": whyFact,
	"lc_collate": whyFact, "lc_ctype": whyFact, "max_function_args": whyFact, "max_identifier_length": whyFact,
	"max_index_keys": whyFact, "num_os_semaphores": whyFact, "segment_size": whyFact, "server_encoding": whyFact,
	"server_version": whyFact, "server_version_num": whyFact, "shared_memory_size": whyFact,
	"shared_memory_size_in_huge_pages": whyFact, "wal_block_size": whyFact, "wal_segment_size": whyFact,
	"role": whyFact, "session_authorization": whyFact, "seed": whyFact, "transaction_isolation": whyFact,
	"transaction_read_only": whyFact, "transaction_deferrable": whyFact,
}

// fixedFamilies are the parameters that belong to Howdah by how their names begin, with the members that there are.
var fixedFamilies = []struct{ prefix, why, members string }{
	{"unix_socket_", whyAddress, "directories group permissions"},
	{"ssl", whyTLS, " _ca_file _cert_file _crl_dir _crl_file _dh_params_file _key_file _library _max_protocol_version " +
		"_passphrase_command _passphrase_command_supports_reload _prefer_server_ciphers _renegotiation_limit"},
	{"recovery_target", whyRecovery, " _action _inclusive _lsn _name _time _timeline _xid"},
	{"krb_", whyMethod, "caseins_users server_keyfile"},
	{"syslog_", whyLog, "facility ident sequence_numbers split_messages"},
}

// Fixed says whether a parameter belongs to Howdah, and why.
func Fixed(name string) (why string, isFixed bool) {
	if why, isFixed = fixed[name]; isFixed {
		return why, true
	}
	if tlsChecks[name] != nil {
		return "", false
	}
	for _, family := range fixedFamilies {
		if strings.HasPrefix(name, family.prefix) {
			return family.why, true
		}
	}
	return "", false
}

// FixedByReason are the names of all parameters that belong to Howdah, in order, by why. The API server refuses them, too.
func FixedByReason() map[string][]string {
	reasons := map[string][]string{}
	for name, why := range fixed {
		reasons[why] = append(reasons[why], name)
	}
	for _, family := range fixedFamilies {
		for _, member := range strings.Split(family.members, " ") {
			reasons[family.why] = append(reasons[family.why], family.prefix+member)
		}
	}
	for _, names := range reasons {
		slices.Sort(names)
	}
	return reasons
}

// walLevels are the values of wal_level that archiving works with.
var walLevels = []string{"replica", "logical"}

// leastValues are what the agent needs of parameters that are otherwise free.
var leastValues = map[string]int{
	"max_wal_senders":                3, // a base backup that streams takes two
	"superuser_reserved_connections": 2, // so that a full server still answers the agent
}

// CheckParameter says in a sentence why a person may not set this parameter to this value. Whether
// the server knows the parameter, only the server can say.
func CheckParameter(name, value string) error {
	if err := checkSyntax(Parameter{Name: name, Value: value}); err != nil {
		return err
	}
	if why, isFixed := Fixed(name); isFixed {
		return fmt.Errorf("%w: spec.postgresql.parameters can't set %s: %s; remove it", ErrParameter, name, why)
	}
	if name == "wal_level" && !slices.Contains(walLevels, value) {
		return fmt.Errorf("%w: wal_level %q can't be archived: write replica or logical", ErrParameter, value)
	}
	if check := tlsChecks[name]; check != nil {
		return check(name, value)
	}
	if least, found := leastValues[name]; found {
		if n, err := strconv.Atoi(value); err != nil || n < least {
			return fmt.Errorf("%w: %s is %q: write a number from %d on", ErrParameter, name, value, least)
		}
	}
	return nil
}

// cloneSenders are the senders that one base backup takes: one for the data, one for the WAL meanwhile.
const cloneSenders = 2

// CheckRoom says in a sentence why this many instances could not follow their primary with these parameters.
func CheckRoom(params map[string]string, instances int) error {
	var errs []error
	for name, least := range map[string]int{"max_replication_slots": instances - 1, "max_wal_senders": instances - 1 + cloneSenders} {
		value, found := params[name]
		if n, err := strconv.Atoi(value); found && err == nil && n < least {
			errs = append(errs, fmt.Errorf("%w: %s is %d: %d instances need at least %d", ErrParameter, name, n, instances, least))
		}
	}
	return errors.Join(errs...)
}

// CheckParameters joins what CheckParameter says of each, in the order of names.
func CheckParameters(params map[string]string) error {
	var errs []error
	for _, p := range ParameterList(params) {
		errs = append(errs, CheckParameter(p.Name, p.Value))
	}
	return errors.Join(errs...)
}

// FixedParameters are the values of the fixed parameters that are the same on every server of a
// major. The agent adds those that name its paths, commands and peers.
func FixedParameters(major int) []Parameter {
	params := map[string]string{
		// A restored tablespace is a folder in pg_tblspc, at the sight of which a replica would end its recovery.
		"allow_in_place_tablespaces": "on",
		// Changing it needs a restart, so it is on before there is a repository. A replica keeps its WAL until the primary
		// has archived it, and so has what the primary had not when it takes over.
		"archive_mode":        "always",
		"fsync":               "on",
		"full_page_writes":    "on",
		"hot_standby":         "on",
		"lc_messages":         "C", // the log is read by its English words
		"log_destination":     "stderr",
		"log_error_verbosity": "default",
		"log_line_prefix":     LogLinePrefix,
		"log_timezone":        "UTC",
		"logging_collector":   "off",
		"password_encryption": "scram-sha-256",
		"ssl":                 "on",
		"wal_log_hints":       "on",
	}
	if major >= 17 {
		params["allow_alter_system"] = "off"
	}
	return ParameterList(params)
}
