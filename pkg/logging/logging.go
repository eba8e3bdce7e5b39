// Package logging makes the one logger of a controller. Everything else logs through logr from the context.
package logging

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New makes a logger. Level is error, info or debug (which shows why nothing happened); format is json or console.
func New(level, format string) (logr.Logger, error) {
	var zapLevel zapcore.Level
	if err := zapLevel.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("log level %q is unknown; write error, info or debug", level)
	}
	config := zap.NewProductionConfig()
	if format != "json" && format != "console" {
		return logr.Logger{}, fmt.Errorf("log format %q is unknown; write json or console", format)
	}
	config.Encoding = format
	config.Level = zap.NewAtomicLevelAt(zapLevel)
	config.Sampling = nil
	config.DisableStacktrace = true
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.EncoderConfig.TimeKey = "time"
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("build logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}
