// Package demo tests the page of hermes-demo in a headless Chromium.
//
// HERMES_SCREENSHOT names a file for the picture in the README, and HERMES_PICTURES a directory
// for pictures of all that the page can look like.
package demo
