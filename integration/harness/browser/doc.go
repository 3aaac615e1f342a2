// Package browser drives a page in a headless Chromium. Without one in the PATH a test is
// skipped, or fails if HERMES_CHROMIUM is "required".
package browser
