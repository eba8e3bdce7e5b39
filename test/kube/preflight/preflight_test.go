package preflight

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func fine() Machine {
	return Machine{
		Meminfo:     "MemTotal: 9000000 kB\nMemAvailable:    8388608 kB\n",
		Filesystems: "nodev\tproc\n\text4\nnodev\toverlay\n",
		DiskMiB:     20 << 10,
		Bridge:      true,
	}
}

func TestAMachineThatHasEverythingPasses(t *testing.T) {
	if err := errors.Join(fine().Verdict(), fine().KernelVerdict()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsMissingIsSaidInASentence(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Machine)
		want  string
	}{
		"root":    {func(m *Machine) { m.UserID = 1000 }, "needs root"},
		"cgroups": {func(m *Machine) { m.Cgroups = errors.New(`the cgroup controller "cpu" is missing`) }, `"cpu" is missing`},
		"memory":  {func(m *Machine) { m.Meminfo = "MemAvailable: 2097152 kB\n" }, "only 2048 MiB of memory are available"},
		"disk":    {func(m *Machine) { m.DiskMiB = 512 }, "only 512 MiB of disk are free"},
		"overlay": {func(m *Machine) { m.Filesystems = "\text4\n" }, "load the module overlay"},
		"bridge":  {func(m *Machine) { m.Bridge = false }, "load the module br_netfilter"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := fine()
			test.spoil(&machine)
			err := machine.Verdict()
			if err == nil {
				err = machine.KernelVerdict()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want something with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a sentence: %q", err)
			}
		})
	}
}

func TestOnlyPackagesThatAreMissingAreInstalled(t *testing.T) {
	got := missingPackages(func(file string) bool { return file != "runc" && file != "/usr/lib/cni/bridge" })
	if want := []string{"containernetworking-plugins", "runc"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
