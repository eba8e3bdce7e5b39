package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// choose takes the wanted configuration if the server can start with it, else the one that it started with last.
func (r *runner) choose(ctx context.Context) error {
	wanted := r.inputs.config
	files, err := settings.Render(wanted, r.adopted.generation.MajorVersion, r.adopted.paths, r.replication)
	if err == nil && r.refused == wanted.Hash() {
		err = fmt.Errorf("%w: %s", settings.ErrRefused, r.refusedFor)
	} else if err == nil {
		err = r.check(ctx, files, wanted)
	}
	if err == nil {
		r.take(wanted, files)
		return r.files.Write(r.adopted.paths)
	}
	if !isRefusal(err) {
		return fmt.Errorf("the configuration can't be checked: %w", err)
	}
	r.refuse(wanted, err)
	if r.good == nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	files, err = settings.Render(*r.good, r.adopted.generation.MajorVersion, r.adopted.paths, r.replication)
	if err != nil {
		return err
	}
	r.take(*r.good, files)
	return r.files.Write(r.adopted.paths)
}

func (r *runner) check(ctx context.Context, files settings.Files, config agentapi.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return settings.Check(ctx, files, r.adopted.paths, settings.Target{
		BinDir: r.adopted.binDir, PGData: r.adopted.pgdata, Scratch: filepath.Join(r.RunDir, "check"), MemoryBytes: config.MemoryBytes,
	})
}

// take makes a configuration the one in effect.
func (r *runner) take(config agentapi.Config, files settings.Files) {
	r.effect, r.files = config, files
	isWanted := config.Hash() == r.inputs.config.Hash()
	if isWanted {
		r.refused, r.refusedFor, r.unchecked = "", "", false
		go r.letGo(config)
	}
	r.set(func(status *agentapi.Status) {
		status.ConfigHash, status.Tuned = config.Hash(), files.Tuned
		if isWanted {
			status.ConfigError, status.ConfigErrorHash = "", ""
		}
	})
}

// letGo removes data generations that nobody wants any more. A large one takes a while, and the server goes on meanwhile.
func (s *Supervisor) letGo(config agentapi.Config) {
	s.removing.Lock()
	defer s.removing.Unlock()
	for _, unwanted := range config.Released {
		if unwanted == config.DataGeneration {
			continue
		}
		removed, err := s.Volume.Release(unwanted)
		if len(removed) > 0 {
			s.Log.Info("removed data that nobody wants any more", "generations", removed)
		}
		if err != nil {
			s.Log.Warn("data that nobody wants any more can't be removed", "generation", unwanted, "error", err)
		}
	}
}

// refuse notes why the wanted configuration is not in effect.
func (r *runner) refuse(config agentapi.Config, err error) {
	if r.refused != config.Hash() {
		r.Log.Error("the configuration is refused; the one before stays", "hash", config.Hash(), "error", err)
	}
	r.refused, r.refusedFor = config.Hash(), sentence(err)
	r.set(func(status *agentapi.Status) { status.ConfigError, status.ConfigErrorHash = r.refusedFor, r.refused })
}

// sameSettings says whether two configurations are one to PostgreSQL.
func sameSettings(a, b agentapi.Config) bool {
	return serverPart(a).Hash() == serverPart(b).Hash()
}

func serverPart(c agentapi.Config) agentapi.Config {
	return agentapi.Config{Parameters: c.Parameters, MemoryBytes: c.MemoryBytes, CPUMillis: c.CPUMillis, SuperuserAccess: c.SuperuserAccess, HBA: c.HBA}
}

const goodFile = "good.json"

// keepGood keeps the configuration that a server came up with, for the day that another one doesn't.
func (r *runner) keepGood() {
	config := r.effect
	if r.good != nil && r.good.Hash() == config.Hash() {
		return
	}
	r.good = &config
	content, err := json.Marshal(config)
	if err == nil {
		err = writeFile(filepath.Join(r.adopted.paths.Dir, goodFile), content)
	}
	if err != nil {
		r.Log.Error("the working configuration can't be kept", "error", err)
	}
}

func (r *runner) loadGood() *agentapi.Config {
	content, err := os.ReadFile(filepath.Join(r.adopted.paths.Dir, goodFile))
	if err != nil {
		return nil
	}
	config := &agentapi.Config{}
	if err := json.Unmarshal(content, config); err != nil {
		return nil
	}
	return config
}
