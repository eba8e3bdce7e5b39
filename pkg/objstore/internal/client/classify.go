package client

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"howdah.dev/howdah/pkg/objstore"
)

var kindOfCode = map[string]error{
	"NoSuchKey":                    objstore.ErrNotFound,
	"NotFound":                     objstore.ErrNotFound,
	"NoSuchBucket":                 objstore.ErrNoBucket,
	"PreconditionFailed":           objstore.ErrExists,
	"ConditionalRequestConflict":   objstore.ErrUnavailable, // another put is under way: ask again
	"OperationAborted":             objstore.ErrUnavailable,
	"InvalidRange":                 objstore.ErrTorn,
	"AccessDenied":                 objstore.ErrDenied,
	"AllAccessDisabled":            objstore.ErrDenied,
	"InvalidAccessKeyId":           objstore.ErrDenied,
	"SignatureDoesNotMatch":        objstore.ErrDenied,
	"ExpiredToken":                 objstore.ErrDenied,
	"InvalidToken":                 objstore.ErrDenied,
	"TokenRefreshRequired":         objstore.ErrDenied,
	"AuthorizationHeaderMalformed": objstore.ErrDenied,
	"RequestTimeTooSkewed":         objstore.ErrDenied,
	"XAdminNoSuchUser":             objstore.ErrDenied, // versitygw's word for an unknown access key
	"XAdminUserNotFound":           objstore.ErrDenied,
	objstore.CodeIdentityRefused:   objstore.ErrDenied,
	"ObjectLocked":                 objstore.ErrLocked,
	"RetentionPolicyNotMet":        objstore.ErrLocked, // a bucket of Google's with a retention policy
	"ObjectUnderActiveHold":        objstore.ErrLocked,
	"SlowDown":                     objstore.ErrUnavailable,
	"RequestTimeout":               objstore.ErrUnavailable,
	"InternalError":                objstore.ErrUnavailable,
	"ServiceUnavailable":           objstore.ErrUnavailable,
	"BadDigest":                    objstore.ErrUnavailable, // garbled on the way: send again
	"XAmzContentChecksumMismatch":  objstore.ErrUnavailable, // MinIO's word for it
	"XAmzContentSHA256Mismatch":    objstore.ErrUnavailable,
	"IncompleteBody":               objstore.ErrUnavailable,
	"XMinioServerNotInitialized":   objstore.ErrUnavailable,
}

// Kind finds the sentinel for a server's answer: its code word, its HTTP status (0 if there was no
// answer), and the error that the SDK made of it. It is nil for what the store understood and
// refused for another reason.
func Kind(code string, status int, err error) error {
	for _, final := range []error{objstore.ErrConfig, objstore.ErrTorn, objstore.ErrTooLarge} {
		if errors.Is(err, final) {
			return nil // it says so itself
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if kind, ok := kindOfCode[code]; ok {
		return kind
	}
	if status == http.StatusNotFound && code != "" {
		return nil // something else is missing, such as the user
	}
	return kindOfStatus(status)
}

func kindOfStatus(status int) error {
	switch {
	case status == http.StatusNotFound:
		return objstore.ErrNotFound
	case status == http.StatusPreconditionFailed:
		return objstore.ErrExists
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return objstore.ErrDenied
	case status == http.StatusRequestedRangeNotSatisfiable:
		return objstore.ErrTorn
	case status == 0, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status == http.StatusConflict, status >= 500:
		return objstore.ErrUnavailable
	}
	return nil
}

// Relative takes the prefix from a key.
func Relative(config objstore.Config, key string) string {
	return strings.TrimPrefix(key, config.Key(""))
}

// Listed is an error if a server lists a key that does not begin with the prefix that was asked for.
func Listed(key, prefix string) error {
	if strings.HasPrefix(key, prefix) {
		return nil
	}
	return &objstore.Error{Op: "list", Key: prefix, Kind: objstore.ErrCorrupt, Err: errors.New("the server lists objects that were not asked for")}
}
