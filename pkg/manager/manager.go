// Package manager starts a controller's process: the flags that all of them share, one logger, one cache of just what the
// controller reads, leader election, probes and metrics.
package manager

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/logging"
)

// Options are the flags that every controller has.
type Options struct {
	LeaderElect    bool
	MetricsAddress string
	// MetricsForAll serves metrics to whoever reaches the port; otherwise to whom the API server allows to read them.
	MetricsForAll bool
	// MetricsCertificates is the folder of the certificate of /metrics; if empty, the process makes one.
	MetricsCertificates string
	ProbeAddress        string
	Namespaces          []string
	LogLevel            string
	LogFormat           string
	// ProfileAddress serves profiles of the process to whoever reaches it; empty: nowhere.
	ProfileAddress string
}

// AddFlags registers the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.LeaderElect, "leader-elect", false, "act only while this replica is the elected leader")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "address of /metrics, over TLS; 0 switches it off")
	flags.BoolVar(&o.MetricsForAll, "metrics-for-all", false, "serve /metrics to whoever reaches it, and not only to whom the API server allows to get it")
	flags.StringVar(&o.MetricsCertificates, "metrics-cert-dir", "", "folder of tls.crt and tls.key for /metrics; if not set, the process makes a certificate that nobody has signed")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.StringSliceVar(&o.Namespaces, "namespaces", nil, "namespaces to watch; all if not set")
	flags.StringVar(&o.LogLevel, "log-level", "info", "log level: error, info or debug")
	flags.StringVar(&o.LogFormat, "log-format", "json", "log format: json or console")
	flags.StringVar(&o.ProfileAddress, "pprof-bind-address", "", "address of Go's profiles (/debug/pprof), without TLS and for whoever reaches it, such as 127.0.0.1:6060; off if not set")
}

// Scheme knows Kubernetes' own kinds and ours.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// New makes the manager of the controller with this name. byObject says how the cache treats kinds that are not ours:
// give every kind of Kubernetes' own a label selector, so that memory doesn't grow with what others keep.
func New(name string, o Options, byObject map[client.Object]cache.ByObject) (ctrl.Manager, error) {
	logger, err := logging.New(o.LogLevel, o.LogFormat)
	if err != nil {
		return nil, err
	}
	ctrl.SetLogger(logger)
	config, err := apiServer(name)
	if err != nil {
		return nil, err
	}
	options, err := o.managerOptions(name, byObject)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("started", healthz.Ping)
}

// apiServer is how the controller with this name reaches the API server.
func apiServer(name string) (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	config.UserAgent = name
	// Enough for a look at thousands of clusters after a start: the API server itself sees to it that nobody is served at others' cost.
	config.QPS, config.Burst = 1000, 2000
	// HTTPS_PROXY is there for object stores. A proxy that leads to them seldom leads back into Kubernetes, and would see each request. One that
	// a kubeconfig names for its API server is meant.
	if config.Proxy == nil {
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config, nil
}

// OnlyOurs keeps of these kinds what Howdah has made.
func OnlyOurs(kinds ...client.Object) map[client.Object]cache.ByObject {
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range kinds {
		byObject[kind] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})}
	}
	return byObject
}

func (o Options) managerOptions(name string, byObject map[client.Object]cache.ByObject) (manager.Options, error) {
	metrics, err := o.metricsOptions()
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	return manager.Options{
		Scheme:                        Scheme(),
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              name + ".howdah.dev",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.ProbeAddress,
		PprofBindAddress:              o.ProfileAddress,
		Cache: cache.Options{
			DefaultNamespaces: o.namespaces(),
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          byObject,
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: uncached()}},
	}, err
}

func (o Options) namespaces() map[string]cache.Config {
	if len(o.Namespaces) == 0 {
		return nil
	}
	namespaces := map[string]cache.Config{}
	for _, namespace := range o.Namespaces {
		namespaces[namespace] = cache.Config{}
	}
	return namespaces
}

// Images maps major versions of PostgreSQL to images, as in --postgres-images=17=IMAGE,18=IMAGE.
type Images map[int32]string

// ParseImages reads the value of --postgres-images.
func ParseImages(pairs []string) (Images, error) {
	images := Images{}
	for _, pair := range pairs {
		var major int32
		version, image, found := strings.Cut(pair, "=")
		if _, err := fmt.Sscanf(version, "%d", &major); !found || err != nil || image == "" || fmt.Sprint(major) != version {
			return nil, fmt.Errorf("--postgres-images: %q is not of the form 17=IMAGE", pair)
		}
		images[major] = image
	}
	return images, nil
}
