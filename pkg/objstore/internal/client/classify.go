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
	return Mislisted(prefix, "the server lists objects that were not asked for")
}

// Mislisted is a list that can't be trusted to be whole. What it lacks would be taken for absent, and what that needs for unused.
func Mislisted(prefix, why string) error {
	return &objstore.Error{Op: "list", Key: prefix, Kind: objstore.ErrCorrupt, Err: errors.New(why)}
}

// Ordered checks that keys are listed in the order of their bytes. A list that is continued after the last key, as after an outage, would lack the
// others otherwise.
type Ordered struct{ last string }

// Next is an error if the next key is less than the last one.
func (o *Ordered) Next(key, prefix string) error {
	if key < o.last {
		return Mislisted(prefix, "the server lists objects in another order than that of their keys")
	}
	o.last = key
	return nil
}
