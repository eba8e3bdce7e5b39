package postgres

import (
	"slices"
	"strings"
)

// runsCode are the parameters that load a library, run a command, or read further settings from elsewhere.
var runsCode = []string{
	"archive_cleanup_command", "archive_command", "archive_library", "config_file", "data_directory", "dynamic_library_path",
	"extension_control_path", "hba_file", "ident_file", "include", "include_dir", "include_if_exists", "jit_provider",
	"local_preload_libraries", "oauth_validator_libraries", "recovery_end_command", "restore_command", "session_preload_libraries",
	"shared_preload_libraries", "ssl_passphrase_command",
}

// RunsCode says whether a parameter has a server load a library, run a command, or read further settings from where it names. Who
// sets it decides what runs as the server, so it must not come from a bucket.
func RunsCode(name string) bool {
	name = strings.ToLower(name)
	// The hooks of procedural languages, such as plperl.on_init.
	return slices.Contains(runsCode, name) || strings.HasPrefix(name, "plperl.on_") || name == "pltcl.start_proc" || name == "pltclu.start_proc" ||
		name == "plv8.start_proc"
}

// WithoutCode drops the lines of a configuration file that set such parameters, and names those.
func WithoutCode(conf string) (kept string, dropped []string) {
	var lines strings.Builder
	for line := range strings.Lines(conf) {
		name := strings.ToLower(settingName(line))
		if !RunsCode(name) {
			lines.WriteString(line)
		} else if !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
	}
	return lines.String(), dropped
}

// settingName is the name that a line of a configuration file begins with, as PostgreSQL's own parser reads it.
func settingName(line string) string {
	line = strings.TrimLeft(line, " \t\r\n\f\v")
	end := strings.IndexFunc(line, func(r rune) bool {
		return r < 0x80 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$", r)
	})
	if end < 0 {
		return line
	}
	return line[:end]
}
