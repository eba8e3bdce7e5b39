package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// client is a pod that connects to a cluster just as an application would: through its Service, with what is in its
// app Secret, and checking the server's certificate.
func clientPod(cluster, image string) *corev1.Pod {
	fromSecret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-app"}, Key: key,
		}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: cluster + "-client", Namespace: namespace},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](999),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "client", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"sleep", "infinity"},
				Env: []corev1.EnvVar{
					fromSecret("PGHOST", "host"), fromSecret("PGPORT", "port"), fromSecret("PGDATABASE", "dbname"),
					fromSecret("PGUSER", "username"), fromSecret("PGPASSWORD", "password"),
					{Name: "PGSSLMODE", Value: "verify-full"}, {Name: "PGSSLROOTCERT", Value: "/connection/ca.crt"},
					{Name: "PGCONNECT_TIMEOUT", Value: "5"},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "connection", MountPath: "/connection"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
			Volumes: []corev1.Volume{{Name: "connection", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-connection"}},
			}}},
		},
	}
}

// inClient runs a program in the client pod of a cluster.
func (s *story) inClient(ctx context.Context, cluster string, args ...string) (string, error) {
	return s.kubectlOutput(ctx, namespace, append([]string{"exec", cluster + "-client", "--"}, args...)...)
}

// sql runs statements, each in its own transaction, and returns what they print.
func (s *story) sql(ctx context.Context, cluster string, statements ...string) (string, error) {
	args := []string{"psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	return s.inClient(ctx, cluster, args...)
}

// fingerprint says what is in the tables: the rows of each, and a sum over all that is in them which doesn't depend
// on their order.
type fingerprint string

var tables = []string{"pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers", "notes"}

func (s *story) fingerprint(ctx context.Context, cluster string) (fingerprint, error) {
	var parts []string
	for _, table := range tables {
		parts = append(parts, fmt.Sprintf("SELECT '%s' COLLATE \"C\", count(*), sum(hashtextextended(t::text, 0)) FROM %s t", table, table))
	}
	out, err := s.sql(ctx, cluster, strings.Join(parts, " UNION ALL ")+" ORDER BY 1")
	return fingerprint(out), err
}

// accounts reads the number of accounts out of a fingerprint.
func (f fingerprint) accounts() string {
	for line := range strings.Lines(string(f)) {
		if columns := strings.Split(line, "|"); columns[0] == "pgbench_accounts" {
			return columns[1]
		}
	}
	return "no"
}

// same says how two fingerprints differ.
func same(got, want fingerprint) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("the data differs; table, rows and sum are\n%s\nand should be\n%s", got, want)
}

// clock is the database's own time.
func (s *story) clock(ctx context.Context, cluster string) (time.Time, error) {
	out, err := s.sql(ctx, cluster, `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, out)
}
