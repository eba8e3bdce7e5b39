// Package settings makes PostgreSQL's configuration files of what the cluster asks for, and checks them before a server
// has to live with them.
package settings

import (
	"cmp"
	"fmt"
	"path/filepath"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// Paths are where the server finds what it is configured with.
type Paths struct {
	SocketDir string
	// Dir takes the configuration files, and TLSDir tls.crt, tls.key and ca.crt as the server may read them.
	Dir    string
	TLSDir string
	// LDAPFile has the password with which rules of pg_hba.conf search a directory. It lies outside of the volume.
	LDAPFile string
	// LDAPCAFile has the CAs of directories, and LDAPConfFile names them to libldap.
	LDAPCAFile, LDAPConfFile string
	// PeerTLSDir has the same of the client certificate that a replica comes to its primary with.
	PeerTLSDir string
	// WAL is the program of archive_command and restore_command.
	WAL  string
	Port int
}

// Files are the content of the configuration files.
type Files struct {
	Conf  string
	HBA   string
	Ident string
	// Tuned are the parameters in effect that follow from the sizes of the pod and its volume and from the instances.
	Tuned map[string]string
	// fixed is what nothing overrides: it goes on the command line too, which ALTER SYSTEM does not override.
	fixed []postgres.Parameter
}

// Render makes the files for a server of this major with these replication settings. Later layers win: values for the size of the pod,
// those of the user, and those that are Howdah's. It refuses parameters and rules that a user may not set.
//
// A replica does not start with less max_connections, max_worker_processes, max_wal_senders, max_prepared_transactions
// or max_locks_per_transaction than its primary has: those are raised on replicas first and lowered on the primary first. One that has
// to be started before that gets what its primary has.
func Render(config agentapi.Config, major int, paths Paths, replication Replication) (Files, error) {
	if err := check(config, replication.SegmentBytes); err != nil {
		return Files{}, err
	}
	fixed := postgres.MergeParameters(postgres.FixedParameters(major), ours(config, paths))
	layers := computed(config, major, replication)
	stronger := [][]postgres.Parameter{postgres.ParameterList(config.Parameters), replication.parameters(paths, major, config.Parameters), afterCrash(config), fixed}
	all := replication.Least.raise(postgres.MergeParameters(append(layers, stronger...)...))
	conf, err := postgres.RenderConf(all)
	if err != nil {
		return Files{}, err
	}
	ident, err := postgres.RenderIdent(config.Ident)
	if err != nil {
		return Files{}, err
	}
	rules := postgres.HBA{Rules: config.HBA, Ident: config.Ident, SuperuserAccess: config.SuperuserAccess, Closed: replication.Closed}
	if config.LDAPPassword {
		rules.LDAPFile = paths.LDAPFile
	}
	hba, err := postgres.RenderHBA(rules)
	if err != nil {
		return Files{}, err
	}
	return Files{Conf: conf, HBA: hba, Ident: ident, Tuned: tuned(major, layers, append(stronger, replication.Image.parameters())), fixed: fixed}, nil
}

// computed are the values for the size of the pod and its volume, for the image and for the instances, the stronger ones last.
func computed(config agentapi.Config, major int, replication Replication) [][]postgres.Parameter {
	cores := int((config.CPUMillis + 999) / 1000)
	layers := [][]postgres.Parameter{
		postgres.DefaultParameters(major, config.MemoryBytes, cores), postgres.ReservedConnections(major, config.Parameters["max_connections"]),
		replication.Image.parameters(), postgres.VolumeParameters(replication.VolumeBytes, replication.SegmentBytes),
	}
	if replication.WALVolumeBytes > 0 {
		layers = append(layers, postgres.WALVolumeParameters(replication.WALVolumeBytes, replication.SegmentBytes))
	}
	if config.Instances > 1 {
		layers = append(layers, postgres.ReplicationParameters(cmp.Or(replication.WALVolumeBytes, replication.VolumeBytes)))
		if replication.KeepsSlots(major, config.Parameters) {
			layers = append(layers, postgres.FailoverSlotParameters())
		}
	}
	return layers
}

// tuned are those of the computed layers that a server of unknown size would not get, and that nothing stronger replaces.
func tuned(major int, computed, stronger [][]postgres.Parameter) map[string]string {
	values := map[string]string{}
	for _, p := range postgres.MergeParameters(computed...) {
		values[p.Name] = p.Value
	}
	for _, p := range postgres.MergeParameters(append(stronger, postgres.DefaultParameters(major, 0, 0), postgres.ReservedConnections(major, ""))...) {
		delete(values, p.Name)
	}
	return values
}

func check(config agentapi.Config, segment int64) error {
	if err := postgres.CheckParameters(config.Parameters); err != nil {
		return err
	}
	if err := postgres.CheckSegments(config.Parameters, segment); err != nil {
		return err
	}
	return postgres.CheckRoom(config.Parameters, config.Instances)
}

// afterCrash says who recovers when a session crashes: PostgreSQL by itself, which lets clients in at once, or the agent, which
// can keep them out for a moment. It is not on the command line, as it changes with spec.synchronous.
func afterCrash(config agentapi.Config) []postgres.Parameter {
	itself := "on"
	if config.Synchronous != nil && config.Instances > 1 {
		itself = "off"
	}
	return postgres.ParameterList(map[string]string{"restart_after_crash": itself})
}

// ours are the fixed parameters that name paths and commands.
func ours(config agentapi.Config, paths Paths) []postgres.Parameter {
	return postgres.ParameterList(map[string]string{
		"archive_command":         walsocket.CommandLine(paths.WAL, walsocket.VerbArchive, paths.SocketDir, "%p"),
		"cluster_name":            config.Cluster,
		"hba_file":                filepath.Join(paths.Dir, hbaFile),
		"ident_file":              filepath.Join(paths.Dir, identFile),
		"listen_addresses":        "*",
		"port":                    fmt.Sprint(paths.Port),
		"ssl_ca_file":             filepath.Join(paths.TLSDir, CAFile),
		"ssl_cert_file":           filepath.Join(paths.TLSDir, CertFile),
		"ssl_key_file":            filepath.Join(paths.TLSDir, KeyFile),
		"unix_socket_directories": paths.SocketDir,
	})
}

const (
	confFile  = "postgresql.conf"
	hbaFile   = "pg_hba.conf"
	identFile = "pg_ident.conf"
)

// ConfFile is where the server's postgresql.conf lies.
func ConfFile(paths Paths) string { return filepath.Join(paths.Dir, confFile) }

// Write replaces the configuration files in the folder of paths, which has to exist.
func (f Files) Write(paths Paths) error {
	for name, content := range map[string]string{confFile: f.Conf, hbaFile: f.HBA, identFile: f.Ident} {
		if err := generation.WriteFile(filepath.Join(paths.Dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// Arguments make a server use the files in the folder of paths.
func (f Files) Arguments(paths Paths) []string {
	args := []string{"-c", "config_file=" + ConfFile(paths)}
	for _, p := range f.fixed {
		args = append(args, "-c", p.Name+"="+p.Value)
	}
	return args
}
