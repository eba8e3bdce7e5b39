package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one controller.
type process struct {
	name, folder, kubeconfig string
	port                     int
	cmd                      *exec.Cmd
	log                      *os.File
}

// controllers are all of the suite, with what each needs.
func controllers(s settings, server *server) []*process {
	var all []*process
	for i, name := range []string{"db-controller", "backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller"} {
		all = append(all, &process{name: name, folder: s.binaries, kubeconfig: server.kubeconfig, port: 9100 + 2*i})
	}
	return all
}

// Limits, as in the values of the chart.
const (
	mostRollouts                   = 20
	mostBackups, mostBackupsOfNode = 50, 4
)

func (p *process) start(ctx context.Context) error {
	args := []string{
		"--agent-image=agent:1", "--metrics-for-all", fmt.Sprintf("--metrics-bind-address=:%d", p.port),
		fmt.Sprintf("--health-probe-bind-address=:%d", p.port+1), fmt.Sprintf("--pprof-bind-address=127.0.0.1:%d", p.profilePort()),
	}
	switch p.name {
	case "db-controller":
		args = append(args, fmt.Sprintf("--max-concurrent-rollouts=%d", mostRollouts))
	case "backup-controller":
		args = append(args, fmt.Sprintf("--max-concurrent-backups=%d", mostBackups), fmt.Sprintf("--max-concurrent-backups-per-node=%d", mostBackupsOfNode))
	}
	switch p.name {
	case "db-controller", "restore-controller", "upgrade-controller":
		args = append(args, "--postgres-images=17=postgres:17")
	case "pooler-controller":
		args = append(args, "--pgbouncer-image=pgbouncer:1")
	}
	log, err := os.OpenFile(filepath.Join(p.folder, "..", "logs", "scale-"+p.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	p.log = log
	p.cmd = exec.CommandContext(ctx, filepath.Join(p.folder, p.name), args...)
	p.cmd.Env = append(environment(), "KUBECONFIG="+p.kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// environment of this process, without what would have a controller collect garbage otherwise than it does by itself.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GOGC=") || strings.HasPrefix(variable, "GOMEMLIMIT=")
	})
}

func (p *process) profilePort() int { return p.port + 100 }

// profile writes a profile of the process into a file. One of the processor takes its seconds.
func (p *process) profile(ctx context.Context, kind, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", p.profilePort(), kind), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	written, err := os.Create(file)
	if err != nil {
		return err
	}
	defer written.Close()
	_, err = io.Copy(written, response.Body)
	return err
}

func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.log.Close()
	}
}

// use is what a process has used so far.
type use struct {
	at       time.Time
	cpu      time.Duration
	rssMiB   float64
	requests float64
	passes   float64
}

// ticks of the processor time in /proc in a second.
const ticks = 100

func (p *process) use() (use, error) {
	u := use{at: time.Now()}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	pages, _ := strconv.Atoi(fields[21])
	u.cpu = time.Duration(user+system) * time.Second / ticks
	u.rssMiB = float64(pages*os.Getpagesize()) / (1 << 20)
	return u, p.scrape(&u)
}

// scrape sums the counters that the process keeps itself.
func (p *process) scrape(u *use) error {
	scraper := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // a certificate that the process has made
	defer scraper.CloseIdleConnections()
	response, err := scraper.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", p.port))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case strings.HasPrefix(name, "rest_client_requests_total{"):
			u.requests += n
		case strings.HasPrefix(name, "controller_runtime_reconcile_total{"):
			u.passes += n
		}
	}
	return nil
}
