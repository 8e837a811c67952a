// Package dashboard tests the dashboard in a real browser, Chromium, with the real program. It has only tests, and is in
// this module because what drives the browser must not be part of the program.
package dashboard
