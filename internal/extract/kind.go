package extract

import (
	"fmt"
	"slices"
)

// Kind is the kind of the place in a page where a link is. Kinds are ordered: those for
// navigation come first.
type Kind uint8

const (
	Anchor     Kind = iota // a[href]
	Area                   // area[href]
	Refresh                // meta[http-equiv=refresh]
	Frame                  // frame[src], iframe[src]
	Related                // link[rel=next, prev, alternate …][href] to a page
	Image                  // img, picture, input[type=image], video[poster], link[rel=icon], svg image, [background]
	Stylesheet             // link[rel=stylesheet]
	Script                 // script[src], link[rel=modulepreload]
	Media                  // audio, video, source, track
	Object                 // object[data], embed[src]
	Resource               // link[rel=preload, manifest …], or link with any other rel except canonical
)

var kindNames = [...]string{
	"a", "area", "refresh", "frame", "link", "img", "stylesheet", "script", "media", "object", "resource",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Asset reports whether links of this kind are extracted only with Options.Assets.
func (k Kind) Asset() bool { return k > Related }

// IsAsset reports whether name is that of a Kind for which Asset returns true.
func IsAsset(name string) bool { return Kind(slices.Index(kindNames[:], name)+1) > Related+1 }
