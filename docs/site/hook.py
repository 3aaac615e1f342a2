"""Hooks that build the site from the pages of this repository.

Pages may stand anywhere in it, with links that work on GitHub. The hooks add the pages
outside docs/, make all links work on the site, and write llms.txt (llmstxt.org) with the
Markdown of each page beside it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]

# Pages outside docs/, and their places on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "xcaddy.md": "xcaddy.md",
    "deploy/kubernetes/README.md": "deploy/kubernetes/index.md",
    "deploy/kubernetes/chart/README.md": "deploy/kubernetes/chart/index.md",
    "deploy/observability/README.md": "deploy/observability.md",
    "demo/page/icon.svg": "icon.svg",
}
IN_REPOSITORY = {place: path for path, place in OUTSIDE.items()}

FENCE = re.compile(r"^(```.*?^```)$", re.M | re.S)
INFO = re.compile(r"^```(\S+) (\S+).*$", re.M)
TITLES = {
    "hermes": "Hermes sends",
    "answer": "Hermes answers",
    "request": "The client sends",
    "received": "becomes",
}
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
# Elements that load what they refer to; <a> does not.
LOADED = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="?((?:https?:)?//[^">\s]+)')

pages = {}  # of the build, by their place


def on_files(files, config):
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    places = {f.src_uri for f in files}
    parts = FENCE.split(markdown)
    for i, part in enumerate(parts):
        if part.startswith("```"):
            # After the language comes the name of a recipe, or the kind of an example.
            parts[i] = INFO.sub(info, part, count=1)
        else:
            parts[i] = LINK.sub(lambda m: leads(m[1], page.file.src_uri, places, config), part)
    markdown = "".join(parts)
    page.meta["description"] = summary(markdown)
    if not page.meta["description"]:
        raise PluginError(f"{page.file.src_uri} does not begin with what it is about")
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    pages[page.file.src_uri] = markdown
    return markdown


def info(fence):
    """Returns the first line of a fence in the form of the site."""
    language, word = fence.groups()
    if word not in TITLES:
        return "```" + language
    return f'``` {{ .{language.replace("sse", "text")} .frames title="{TITLES[word]}" }}'


def leads(link, place, places, config):
    """Returns the link of a page at place as it is on the site."""
    if "://" in link or link.startswith("#"):
        return link
    file, _, anchor = link.partition("#")
    here = IN_REPOSITORY.get(place, "docs/" + place)
    there = posixpath.normpath(posixpath.join(posixpath.dirname(here), file))
    to = OUTSIDE.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
    if to + "/README.md" in places:
        to += "/README.md"
    elif (there + "/README.md") in OUTSIDE:
        to = OUTSIDE[there + "/README.md"]
    if to not in places:
        if not (ROOT / there).exists():
            return link  # and mkdocs warns
        kind = "tree" if (ROOT / there).is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{there}"
    return posixpath.relpath(to, posixpath.dirname(place) or ".") + (anchor and "#" + anchor)


def summary(markdown):
    """Returns the first sentences of a page as plain text, up to 300 characters."""
    for block in FENCE.sub("", markdown).split("\n\n"):
        if block.strip() and not block.startswith(("#", "    ", "|", "!", "<", "-")):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split())).replace("**", "")
            return re.match(r"(.{0,299}[.])(?=\s|$)|[^:]*", text)[0]
    return ""


def on_post_build(config):
    site = Path(config.site_dir)
    for place, markdown in pages.items():
        target = site / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown)
    (site / "llms.txt").write_text("\n".join(llms(config)) + "\n")
    for file in site.rglob("*.html"):
        for address in LOADED.findall(file.read_text()):
            if not address.startswith(config.site_url):  # as the canonical address of a page
                raise PluginError(f"{file} loads {address}, which is not on this site")
    if (listed := (site / "sitemap.xml").read_text().count("<loc>")) != len(pages):
        raise PluginError(f"the sitemap lists {listed} of {len(pages)} pages")


def on_nav(nav, config, files):
    config.extra["nav_of_build"] = nav
    return nav


def llms(config):
    """Returns the lines of llms.txt: each section of the navigation with its pages."""
    yield f"# {config.site_name}"
    yield ""
    yield "> " + summary(pages["index.md"])
    for item in config.extra["nav_of_build"].items:
        if item.is_section:
            yield f"\n## {item.title}\n"
            yield from entries(item)


def entries(section):
    for item in section.children:
        if item.is_section:
            yield from entries(item)
        else:
            yield f"- [{item.title}]({item.file.src_uri}): {item.meta['description']}"
