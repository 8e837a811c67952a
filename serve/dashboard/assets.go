package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// assets are the style, the script, and the files of uPlot as they were built.
//
//go:embed assets/*.css assets/*.js assets/*.svg
var assets embed.FS

// assetVersion is a hash of all assets. It is a part of their addresses, so browsers may keep them for ever.
var assetVersion = sync.OnceValue(func() string {
	hash := sha256.New()
	entries, _ := assets.ReadDir("assets") // they are in the program
	for _, entry := range entries {
		text, _ := assets.ReadFile("assets/" + entry.Name())
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
})

// assetPath returns the address of an asset.
func assetPath(name string) string {
	stem, ext, _ := strings.Cut(name, ".")
	return "/-/" + stem + "-" + assetVersion() + "." + ext
}

// serveAsset answers with an asset.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	name := strings.Replace(file, "-"+assetVersion()+".", ".", 1)
	text, err := assets.ReadFile("assets/" + name)
	if err != nil || name == file {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	writeCompressed(w, r, http.StatusOK, text)
}
