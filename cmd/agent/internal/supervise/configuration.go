package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// configuration is what the server of a copy runs with. Only the loop uses it.
type configuration struct {
	*instance
	copy     *adopted
	releases *releases

	// replication is whom the server follows, or who follows it.
	replication settings.Replication
	// effect is the configuration that the server has, or is started with; files are made of it.
	effect agentapi.Config
	files  settings.Files
	// logical: the server was started with what logical replication needs. Another wal_level waits for a restart.
	logical bool
	// good is the configuration that a server came up with last.
	good *agentapi.Config
	// refused is the desired configuration that was refused, by its hash, and why.
	refused    string
	refusedFor string
	unchecked  bool // the desired configuration could not be checked; try again
}

// of makes it that of another copy.
func (c *configuration) of(copy *adopted) {
	c.copy = copy
	c.good = c.loadGood()
}

// render makes the files of a configuration.
func (c *configuration) render(config agentapi.Config, replication settings.Replication) (settings.Files, error) {
	replication.SegmentBytes, replication.Image = int64(c.copy.segSize), c.copy.image
	replication.Logical = replication.Logical || c.logical
	return settings.Render(config, c.copy.generation.MajorVersion, c.copy.paths, replication)
}

// choose takes the desired configuration if the server can start with it, else the one that it started with last.
func (c *configuration) choose(ctx context.Context, desired agentapi.Config) error {
	replication := c.replication
	replication.Logical, c.logical = true, false // if it is asked for
	var err error
	if replication.Least, err = c.least(ctx); err != nil {
		return err
	}
	files, err := c.render(desired, replication)
	if err == nil && c.refused == desired.Hash() {
		err = fmt.Errorf("%w: %s", settings.ErrRefused, c.refusedFor)
	} else if err == nil {
		err = c.check(ctx, files, desired)
	}
	if err == nil {
		return c.begin(desired, files, desired)
	}
	if !isRefusal(err) {
		return fmt.Errorf("the configuration can't be checked: %w", err)
	}
	c.refuse(desired, err)
	if c.good == nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	files, err = c.render(*c.good, replication)
	if err != nil {
		return err
	}
	return c.begin(*c.good, files, desired)
}

// begin makes a configuration that of the server which is started next.
func (c *configuration) begin(config agentapi.Config, files settings.Files, desired agentapi.Config) error {
	c.logical = decodes(config)
	c.take(config, files, desired)
	return c.files.Write(c.copy.paths)
}

// least is what the copy asks for, if a replica is to be started on it.
func (c *configuration) least(ctx context.Context) (settings.Least, error) {
	if standby, err := settings.IsStandby(c.copy.pgdata); !standby || err != nil {
		return settings.Least{}, err
	}
	control, err := postgres.ReadControlData(ctx, postgres.Exec, c.copy.binDir, c.copy.pgdata)
	if err != nil {
		return settings.Least{}, fmt.Errorf("read what the primary has: %w", err)
	}
	return settings.LeastOf(control), nil
}

// lower gives a server that was started with more than is wanted, as its primary has more, what is wanted with its next restart.
func (c *configuration) lower(ctx context.Context, server *postmaster.Server) {
	files, err := c.render(c.effect, c.replication)
	if err == nil && files.Conf == c.files.Conf {
		return
	}
	if err == nil {
		err = c.reload(ctx, server, files)
	}
	if err == nil {
		c.files = files
		err = c.lookForPending(ctx)
	}
	if err != nil {
		c.Log.Warn("parameters with higher values on the primary stay as they are, and whether a restart is pending is not known until the next one", "error", err)
	}
}

func (c *configuration) check(ctx context.Context, files settings.Files, config agentapi.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return settings.Check(ctx, files, c.copy.paths, settings.Target{
		BinDir: c.copy.binDir, PGData: c.copy.pgdata, Scratch: filepath.Join(c.RunDir, "check"), MemoryBytes: config.MemoryBytes,
	})
}

// take makes a configuration the one in effect.
func (c *configuration) take(config agentapi.Config, files settings.Files, desired agentapi.Config) {
	c.effect, c.files = config, files
	isDesired := config.Hash() == desired.Hash()
	if isDesired {
		c.refused, c.refusedFor, c.unchecked = "", "", false
		go c.releases.remove(config)
	}
	c.set(func(status *agentapi.Status) {
		status.ConfigHash, status.Tuned = config.Hash(), files.Tuned
		if isDesired {
			status.ConfigError, status.ConfigErrorHash = "", ""
		}
	})
}

// refuse notes why the desired configuration is not in effect.
func (c *configuration) refuse(config agentapi.Config, err error) {
	if c.refused != config.Hash() {
		c.Log.Error("the configuration is refused; the previous one stays in effect", "hash", config.Hash(), "error", err)
	}
	c.refused, c.refusedFor = config.Hash(), sentence(err)
	c.set(func(status *agentapi.Status) { status.ConfigError, status.ConfigErrorHash = c.refusedFor, c.refused })
}

// blame refuses the desired configuration if a server has not started with it, so that the next try is with the one before. If that
// fails as well, it was something else, and the new one may be tried again. It says whether either may help.
func (c *configuration) blame(desired agentapi.Config, complaint string) (refused, mayHelp bool) {
	switch {
	case c.good == nil || sameSettings(*c.good, desired):
		return false, false
	case c.effect.Hash() == desired.Hash():
		c.refuse(desired, fmt.Errorf("%w: %s", settings.ErrRefused, complaint))
		return true, true
	}
	c.refused = "" // so that it is tried again
	return false, true
}

// rewrite changes the replication settings of a running server, which reads them when it comes to it.
func (c *configuration) rewrite(server *postmaster.Server, replication settings.Replication) error {
	files, err := c.render(c.effect, replication)
	if err != nil {
		return err
	}
	if err := c.write(files); err != nil {
		return err
	}
	c.files = files
	return server.Reload()
}

// write puts files where a running server reads them, on a full volume as well: who is followed, and who is waited for, may have to change.
func (c *configuration) write(files settings.Files) error {
	return c.withRoom(func() error { return files.Write(c.copy.paths) })
}

// sameSettings says whether two configurations are one to PostgreSQL.
func sameSettings(a, b agentapi.Config) bool {
	return serverPart(a).Hash() == serverPart(b).Hash()
}

func serverPart(c agentapi.Config) agentapi.Config {
	return agentapi.Config{
		Parameters: c.Parameters, MemoryBytes: c.MemoryBytes, CPUMillis: c.CPUMillis, SuperuserAccess: c.SuperuserAccess,
		HBA: c.HBA, Ident: c.Ident, LDAPPassword: c.LDAPPassword,
	}
}

const goodFile = "good.json"

// keepGood keeps the configuration that a server came up with, for the day that another one doesn't.
func (c *configuration) keepGood() {
	config := c.effect
	if c.good != nil && c.good.Hash() == config.Hash() {
		return
	}
	c.good = &config
	content, err := json.Marshal(config)
	if err == nil {
		err = writeFile(filepath.Join(c.copy.paths.Dir, goodFile), content)
	}
	if err != nil {
		c.Log.Error("the working configuration can't be kept", "error", err)
	}
}

func (c *configuration) loadGood() *agentapi.Config {
	content, err := os.ReadFile(filepath.Join(c.copy.paths.Dir, goodFile))
	if err != nil {
		return nil
	}
	config := &agentapi.Config{}
	if err := json.Unmarshal(content, config); err != nil {
		return nil
	}
	return config
}

// releases removes data generations that nobody wants any more. A large one takes a while, and the server continues meanwhile.
type releases struct {
	*instance
	removing sync.Mutex
}

func (r *releases) remove(config agentapi.Config) {
	r.removing.Lock()
	defer r.removing.Unlock()
	for _, unwanted := range config.Released {
		if unwanted == config.DataGeneration {
			continue
		}
		removed, err := r.Volume.Release(unwanted)
		if len(removed) > 0 {
			r.Log.Info("removed data generations that are no longer needed", "generations", removed)
			r.tellCopies()
		}
		if err != nil {
			r.Log.Warn("a data generation that is no longer needed can't be removed", "generation", unwanted, "error", err)
		}
	}
}
