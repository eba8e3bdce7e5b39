package place

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Exec runs a program in a container.
func (p *Place) Exec(pod string, args ...string) (string, error) {
	return p.execWith(p.Context(), pod, args...)
}

func (p *Place) execWith(ctx context.Context, pod string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, Kubectl(p.T), append([]string{"exec", "-n", p.Namespace, pod, "--"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// psql is a command line that runs statements in the application's database as the superuser, over the local socket.
func psql(statements []string) []string {
	args := []string{"psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "app"}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	return args
}

// SQL runs statements on the cluster's primary.
func (p *Place) SQL(cluster string, statements ...string) string {
	p.Helper()
	out, err := p.SQLOn(p.Primary(cluster), statements...)
	p.Must(err)
	return out
}

// SQLOn runs statements on one instance.
func (p *Place) SQLOn(instance string, statements ...string) (string, error) {
	return p.Exec(instance, psql(statements)...)
}

// Primary is the name of the instance that status calls the primary; the first one where it doesn't say.
func (p *Place) Primary(name string) string {
	p.Helper()
	cluster := &v1alpha1.PostgresCluster{}
	p.Must(p.Get(p.Context(), client.ObjectKey{Namespace: p.Namespace, Name: name}, cluster))
	if cluster.Status.Primary == "" {
		return name + "-0"
	}
	return cluster.Status.Primary
}

// Pod reads a pod.
func (p *Place) Pod(name string) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{}
	p.Must(p.Get(p.Context(), client.ObjectKey{Namespace: p.Namespace, Name: name}, pod))
	return pod
}

// ClientPod connects as an application would: through the Service, with what is in the app Secret, and checks the
// server's certificate.
func (p *Place) ClientPod(name, cluster, image string, command ...string) *corev1.Pod {
	p.Helper()
	fromSecret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-app"}, Key: key,
		}}}
	}
	pod := &corev1.Pod{ObjectMeta: p.Meta(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](1),
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "client", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
			Env: []corev1.EnvVar{
				fromSecret("PGHOST", "host"), fromSecret("PGPORT", "port"), fromSecret("PGDATABASE", "dbname"),
				fromSecret("PGUSER", "username"), fromSecret("PGPASSWORD", "password"), fromSecret("URI", "uri"),
				{Name: "PGSSLMODE", Value: "verify-full"}, {Name: "PGSSLROOTCERT", Value: "/connection/ca.crt"},
				{Name: "PGCONNECT_TIMEOUT", Value: "3"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "connection", MountPath: "/connection"}, {Name: "binding", MountPath: "/bindings/" + cluster + "-app"}},
		}},
		Volumes: []corev1.Volume{{Name: "connection", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-connection"}},
		}}, {Name: "binding", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: cluster + "-app"}}}},
	}}
	p.Must(p.Create(p.Context(), pod))
	p.Await(pod, "running", func() bool { return pod.Status.Phase == corev1.PodRunning })
	return pod
}
