package extract

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestMayNeedJS has pages as frameworks make them, and pages of few words that need no script.
func TestMayNeedJS(t *testing.T) {
	base, err := new(canon.Canonicalizer).Parse("http://h.test/")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("Ten words are in this sentence, which a reader likes. ", 10)
	const app = `<script type="module" src="/assets/index-B1x.js"></script>`
	for name, c := range map[string]struct {
		page string
		want bool
	}{
		"create-react-app": {`<!doctype html><html><head><title>React App</title><script defer src="/static/js/main.1.js"></script></head>
			<body><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div></body></html>`, true},
		"Vite":                              {`<head><title>Vite</title>` + app + `<link rel="stylesheet" href="/a.css"></head><body><div id="app"></div>`, true},
		"Angular":                           {`<body><app-root></app-root><script src="runtime.js" defer></script><script src="main.js" defer></script></body>`, true},
		"Flutter":                           {`<body><script>_flutter.loader.load();</script></body>`, true},
		"a spinner and its text":            {`<div id="root"><div class="spinner">Loading, please wait …</div></div>` + app, true},
		"a state as JSON beside the script": {`<div id="__next"></div><script type="application/json">{"a":"` + long + `"}</script>` + app, true},
		"a tag manager in noscript":         {`<noscript><iframe src="https://www.googletagmanager.com/ns.html?id=G"></iframe></noscript><div id=app></div>` + app, true},
		"links in a template":               {`<template><p>` + long + `</template><div id=app></div>` + app, true},
		"only links within the page":        {`<a href="#main">Skip to content</a> <a href="javascript:void(0)">Menu</a><div id=main></div>` + app, true},
		"long text, but noscript asks":      {`<p>` + long + `<noscript>Please enable <b>JavaScript</b>.</noscript>` + app, true},
		"text in another case of tags":      {`<DIV ID=root></DIV><SCRIPT SRC=a.js></SCRIPT>`, true},
		"a script that does not end":        {`<div id=root></div><script>start()`, true},

		"no script":                   {`<div id="root"></div>`, false},
		"a link":                      {`<div id="root"></div><a href="/map">map</a>` + app, false},
		"a link to another host":      {`<a href="https://other.test/">o</a>` + app, false},
		"a link to an address":        {`Write to <a href="mailto:a@h.test">us</a>` + app, false},
		"an image map":                {`<map><area href="/north"></map>` + app, false},
		"a frame":                     {`<iframe src="/inner.html"></iframe>` + app, false},
		"a frameset":                  {`<head>` + app + `</head><frameset><frame src="/a.html"></frameset>`, false},
		"a refresh":                   {`<meta http-equiv="refresh" content="0; url=/next">` + app, false},
		"a link in noscript":          {`<noscript><a href="/plain">plain version, without JavaScript</a></noscript>` + app, false},
		"text in a shadow tree":       {`<x-page><template shadowrootmode="open"><p>` + long + `</template></x-page>` + app, false},
		"text":                        {`<h1>News</h1><p>` + long + app, false},
		"text and a counting service": {`<p>` + long + `<script async src="https://www.googletagmanager.com/gtag/js?id=G"></script>`, false},
		"few words and a counting service": {`<p>Under construction.</p><script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
			<script>window.dataLayer = window.dataLayer || []; function gtag(){dataLayer.push(arguments);} gtag('js', new Date());</script>`, false},
		"few words and Matomo":     {`<p>Thank you!</p><script>var _paq = window._paq = []; (function() {})();</script>`, false},
		"few words and Cloudflare": {`<p>Hello</p><script data-cfasync="false" src="/cdn-cgi/scripts/email-decode.min.js"></script>`, false},
		"only data":                {`<p>Hello</p><script type="application/ld+json">{"@type":"Thing"}</script>`, false},
		"an empty script":          {`<p>Hello</p><script> </script><script src=""></script>`, false},
		"a script in a template":   {`<template><script src="a.js"></script></template>`, false},
		"a script in a comment":    {`<!-- <script src="a.js"></script> --><p>Hello`, false},
		"a script in a text area":  {`<textarea><script src="a.js"></script></textarea>`, false},
		"nothing":                  {``, false},
		"half a tag":               {`<script src="a.js"`, false},
	} {
		page := HTML([]byte(c.page), "text/html", base, Options{Canon: new(canon.Canonicalizer)})
		if page.MayNeedJS != c.want {
			t.Errorf("%s: MayNeedJS is %t, want %t: %s", name, page.MayNeedJS, c.want, c.page)
		}
	}
}
