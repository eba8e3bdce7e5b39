package manager

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// rememberFor is how long a token that may read metrics is let in without another question.
	rememberFor = time.Minute
	// rememberTokens is how many of them are remembered: there are not many Prometheus servers.
	rememberTokens = 32
	// reviewTimeout is how long a question to the API server may take.
	reviewTimeout = 10 * time.Second
	// maxToken is longer than any token of Kubernetes; a header may have a megabyte.
	maxToken = 16 << 10
)

// metricsOptions say where and to whom metrics are served: over TLS, to whom the API server knows and allows.
func (o Options) metricsOptions() (metricsserver.Options, error) {
	options := metricsserver.Options{
		BindAddress: o.MetricsAddress, SecureServing: true, CertDir: o.MetricsCertificates, FilterProvider: newMetricsAccess,
		// HTTP/2 would only be another way to keep the server busy.
		TLSOpts: []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }},
	}
	if o.MetricsForAll {
		options.FilterProvider = nil
	}
	if dir := o.MetricsCertificates; dir != "" {
		// The server would make a certificate of its own, which would only show at Prometheus.
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")); err != nil {
			return options, fmt.Errorf("--metrics-cert-dir must hold a certificate and its key as %s/tls.crt and tls.key: %w", dir, err)
		}
	}
	return options, nil
}

// metricsAccess lets those read metrics whom the API server allows to: it asks for the user of a bearer token with a TokenReview, and
// whether this user may get the path with a SubjectAccessReview. controller-runtime's filter does the same with the libraries of the
// API server itself; they would make each controller larger by 29 MB, and answer an unknown token as if the server had failed.
type metricsAccess struct {
	reviews client.Client
	now     func() time.Time

	mu sync.Mutex
	// allowed tokens, by the hash of token, verb and path, with the end of the time that this is remembered.
	allowed map[[sha256.Size]byte]time.Time
}

func newMetricsAccess(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	// Whoever reaches the port can cause questions. They have a limit of their own, so that the controller's work continues.
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 5, 10
	reviews, err := client.New(config, client.Options{HTTPClient: httpClient})
	if err != nil {
		return nil, err
	}
	access := &metricsAccess{reviews: reviews, now: time.Now, allowed: map[[sha256.Size]byte]time.Time{}}
	return access.filter, nil
}

func (a *metricsAccess) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		status, err := a.judge(request)
		switch {
		case err != nil:
			log.Error(err, "Whether metrics may be read could not be found out")
			http.Error(w, "The API server could not say whether you may read this.", http.StatusServiceUnavailable)
		case status == http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Send a token that the API server accepts, as Authorization: Bearer TOKEN.", status)
		case status == http.StatusForbidden:
			http.Error(w, fmt.Sprintf("The account of this token needs a ClusterRole that allows %q on the nonResourceURL %q.",
				verb(request), request.URL.Path), status)
		default:
			next.ServeHTTP(w, request)
		}
	}), nil
}

// judge is the status that the request deserves.
func (a *metricsAccess) judge(request *http.Request) (int, error) {
	token, found := bearerToken(request)
	if !found {
		return http.StatusUnauthorized, nil
	}
	key := sha256.Sum256([]byte(verb(request) + "\x00" + request.URL.Path + "\x00" + token))
	if a.remembered(key) {
		return http.StatusOK, nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	user, known, err := a.userOf(ctx, token)
	if err != nil || !known {
		return http.StatusUnauthorized, err
	}
	allowed, err := a.mayRead(ctx, user, verb(request), request.URL.Path)
	if err != nil || !allowed {
		return http.StatusForbidden, err
	}
	a.remember(key)
	return http.StatusOK, nil
}

func verb(request *http.Request) string { return strings.ToLower(request.Method) }

func bearerToken(request *http.Request) (token string, found bool) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxToken
}

// userOf is the user of a token, if the API server accepts it.
func (a *metricsAccess) userOf(ctx context.Context, token string) (user authenticationv1.UserInfo, known bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := a.reviews.Create(ctx, review); err != nil {
		return user, false, fmt.Errorf("review a token: %w", withoutToken(err, token))
	}
	return review.Status.User, review.Status.Authenticated, nil
}

// withoutToken keeps a token out of the log, should the API server ever repeat it.
func withoutToken(err error, token string) error {
	if strings.Contains(err.Error(), token) {
		return errors.New("the API server refused the review")
	}
	return err
}

func (a *metricsAccess) mayRead(ctx context.Context, user authenticationv1.UserInfo, verb, path string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}}
	if err := a.reviews.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

func (a *metricsAccess) remembered(key [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, found := a.allowed[key]
	return found && a.now().Before(until)
}

func (a *metricsAccess) remember(key [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.allowed) >= rememberTokens {
		clear(a.allowed)
	}
	a.allowed[key] = a.now().Add(rememberFor)
}
