"""The tree model ▸ (stack) ▸ layer ▸ head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from engine.values.table import RANK_COLUMNS
from tui.drawing.facts import short_name
from tui.drawing.numbers import align_numbers
from tui.drawing.text import first_fitting
from tui.drawing.titles import FACT, WORDS, Part, Title
from tui.state.places import place_after
from tui.state.session import Session
from tui.toolkit.keys import MOVING, key_of, lines_of, paging_bindings, shared_key
from tui.toolkit.messages import Notice
from tui.toolkit.screen import PlacedBars
from tui.widgets.line import TitleLine

if TYPE_CHECKING:
    from engine.values.heads import Head
    from tui.state.stores import Stores


OFF = "off"
"""Replaces the label of a head that is off."""


class HeadTree(Tree["Head | None"], PlacedBars, inherit_bindings=False):
    """Layers and their heads; a layer's heads are made when it is first opened.

    Attributes
    ----------
    stores : what is known of the open model; None before one is open.
    found : the matches of the last search, which are underlined.
    title_line : the title above the tree.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "Down", show=False, id="tree.down"),
        Binding("k,up", "cursor_up", "Up", show=False, id="tree.up"),
        Binding("enter", "select_cursor", "Open a layer; go into a head", show=False, id="tree.select"),
        Binding("l,right", "open", "Open, or go into", show=False, id="tree.open"),
        Binding("h,left", "close", "Close, or go out of", show=False, id="tree.close"),
        *paging_bindings("tree"),
        Binding("gg,home,ctrl+home", "first", "First line", show=False, id="tree.first"),
        Binding("G,end,ctrl+end", "last", "Last line", show=False, id="tree.last"),
        shared_key("next_match", "n", "match(1)", "Next match", MOVING),
        shared_key("previous_match", "N", "match(-1)", "Previous match", MOVING),
    ]

    foot_keys: ClassVar[dict[str, str]] = {"tree.select": "Open"}

    def __init__(self) -> None:
        super().__init__(Text("…"), name="tree", id="tree")
        self._layers: dict[Head, TreeNode[Head | None]] = {}
        self._highlighted: TreeNode[Head | None] | None = None
        self._session = Session()
        self.stores: Stores | None = None
        self.found: frozenset[Head] = frozenset()
        self._notes: dict[Head, tuple[object, dict[Head, str]]] = {}
        self.title_line = TitleLine("tree-title")
        self.guide_depth = 2
        self.auto_expand = False

    def follow(self, session: Session) -> None:
        """Clear the tree, and follow the session from now on."""
        self._session, self.stores = session, None
        session.follow(self._draw)
        self.clear()
        self.title_line.show_title(Title())

    def fill(self, stores: Stores) -> None:
        """Fill the tree with a model's layers."""
        self.stores, outline = stores, stores.outline
        self.clear()
        self._layers.clear()
        self._notes.clear()
        self.found = frozenset()
        self._highlighted = None
        _ = self.vertical_scrollbar  # made now, because making it when a layer opens costs two more frames
        self.root.set_label(Text(short_name(outline)))
        self.root.data = None
        for stack in outline.stacks:
            parent = self.root if len(outline.stacks) == 1 else self.root.add(Text(stack), expand=True)
            for layer in outline.stack_layers(stack):
                self._layers[layer.name] = parent.add(Text(str(layer.name)), data=layer.name)
        self.root.expand()
        self._draw(frozenset(("measure",)))

    def _draw(self, changed: frozenset[str]) -> None:
        shown = self._session.shown
        here = None if self.cursor_node is None else self.cursor_node.data
        if self.stores is not None and "selected" in changed and here != shown.selected:
            self.go_to(shown.selected)
        if "measure" in changed:
            from tui.state.spectra_store import measure_named  # late, so that the first frame does not wait for NumPy

            self.title_line.show_title(_title(measure_named(shown.measure).title))
        if changed & {"epsilon", "measure", "off", "pins"}:
            self.refresh_notes()

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Head | None]) -> None:
        """Make a layer's heads when it is opened."""
        self._add_heads(event.node)

    def _add_heads(self, node: TreeNode[Head | None]) -> None:
        if self.stores is not None and node.data is not None and node.data.is_layer and not node.children:
            for head in self.stores.outline.layer(node.data).head_names():
                node.add_leaf(Text(f"H{head.head}"), data=head)

    def is_open(self, name: Head) -> bool:
        """Say whether no closed line hides a head or layer."""
        layer = self._layers[name.whole_layer]
        return all(node.is_expanded for node in (*_ancestors(layer), *([] if name.is_layer else [layer])))

    def close_layer(self, layer: Head) -> None:
        """Hide a layer's heads again."""
        self._layers[layer].collapse()
        if self.cursor_line > self.last_line:
            self.action_last()

    def mark_found(self, found: Iterable[Head]) -> None:
        """Underline the matches of a search, and nothing else."""
        before, self.found = self.found, frozenset(found)
        for name in before ^ self.found:
            node = self._layers[name.whole_layer]
            if name.is_layer:
                node.refresh()
            elif node.is_expanded:
                node.children[name.head].refresh()

    def go_to(self, name: Head | None) -> None:
        """Move the cursor to a head, a layer, or the model (None), and open what hides it."""
        if name is None:
            self._move_to(self.root)
            return
        layer = self._layers[name.whole_layer]
        self._add_heads(layer)
        node = layer if name.is_layer else layer.children[name.head]
        for ancestor in _ancestors(node):
            if not ancestor.is_expanded:
                ancestor.expand()
        self._move_to(node)

    def _move_to(self, node: TreeNode[Head | None]) -> None:
        """Move the cursor to a line that nothing hides."""
        if self.last_line >= node.line:  # reading `last_line` makes the lines of what was opened just now
            self.move_cursor(node)
            self._highlighted = node  # so that a layer that closes meanwhile does not take the cursor back
            self.call_after_refresh(self._scroll_to_cursor)  # a new line can be scrolled to once it is laid out

    def _scroll_to_cursor(self) -> None:
        if self.cursor_node is not None:
            self.scroll_to_node(self.cursor_node, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Go to a line that is clicked, where Textual would do what Enter does; on the cursor's line, do that."""
        meta = event.style.meta
        node = self.get_node_at_line(meta.get("line", -1))
        if node is not None and not meta.get("toggle", False) and node.line != self.cursor_line:
            event.prevent_default()
            self.cursor_line = node.line

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Remember the node under the cursor."""
        self._highlighted = event.node

    def on_tree_node_collapsed(self, event: Tree.NodeCollapsed[Head | None]) -> None:
        """Move the cursor to a node that closed over it; Textual keeps its line, which is another node's now."""
        is_seen = all(node.is_expanded for node in _ancestors(event.node))
        if self._highlighted is not None and event.node in _ancestors(self._highlighted) and is_seen:
            self._move_to(event.node)

    def refresh_notes(self) -> None:
        """Draw again the notes of all heads."""
        for node in self._layers.values():
            for child in node.children if node.is_expanded else ():
                child.refresh()

    def note(self, head: Head) -> str:
        """Give the text beside a head: its numbers, in columns with those of its layer, and its label."""
        stores, shown, layer = self.stores, self._session.shown, head.whole_layer
        if stores is None:
            return ""
        width = self.scrollable_content_region.width
        of = (stores.answers["spectra"], stores.labels, shown.measure, shown.epsilon, shown.off, shown.pins, width)
        if layer not in self._notes or self._notes[layer][0] != of:
            depth = len(list(_ancestors(self._layers[layer]))) + 1
            self._notes[layer] = of, self._write_notes(layer, stores, width - self.guide_depth * depth)
        return self._notes[layer][1][head]

    def _write_notes(self, layer: Head, stores: Stores, room: int) -> dict[Head, str]:
        """Write the text beside each head of a layer; `room` is the cells of a whole line with the name."""
        shown, heads = self._session.shown, tuple(stores.outline.layer(layer).head_names())
        measured, place = stores.spectra.measures(heads, shown.epsilon), RANK_COLUMNS.index(shown.measure)
        numbers: list[list[float | None]] = []
        for head in heads:
            cells = [measured[head][each][place] if each in measured.get(head, {}) else None for each in ("QK", "OV")]
            numbers.append([None if isinstance(cell, str) else cell for cell in cells])
        names = {head: f"H{head.head}{'*' if head in shown.pins else ''}" for head in heads}
        longest, off = max(map(len, names.values())), set(shown.off.heads)
        rest = room - longest - 1
        lines = align_numbers(numbers, rest - (len(OFF) + 1 if off & set(heads) else 0))
        notes: dict[Head, str] = {}
        for head, line in zip(heads, lines, strict=True):
            ways = (OFF,) if head in off else (stores.label(head), stores.short_label(head), "")
            label = first_fitting(max(rest - len(line) - 1, 1), *ways)
            notes[head] = f"{'':{longest - len(names[head])}} {line} {label}".rstrip()
        return notes

    def render_label(self, node: TreeNode[Head | None], base_style: Style, style: Style) -> Text:
        """Add the note to a head's name; strike a head that is off through, and mark a pinned one with a star."""
        label = super().render_label(node, base_style, style)
        if node.data in self.found:
            label = label.copy()
            label.stylize(Style(bold=True, underline=True), len(label) - len(node.label))
        if node.data is not None and not node.data.is_layer:
            label, shown = label.copy(), self._session.shown
            is_off = node.data in shown.off.heads
            if is_off:
                label.stylize(Style(strike=True))
            if node.data in shown.pins:
                label.append("*", style=Style(bold=True))
            note = self.note(node.data)
            label.append(note.removesuffix(OFF) if is_off else note, style=Style(dim=True))
            label.append(OFF if is_off else "", style=Style(bold=True))
        return label

    def action_match(self, step: int) -> None:
        """Go to the next match of the search or the previous one, and show its number."""
        shown, stores = self._session.shown, self.stores
        if not shown.searched or stores is None:
            said = f"no search yet; {key_of(self, 'app.search')} in the tree finds heads"
        elif not (found := stores.found(shown.searched, shown)):
            said = f"no match for {shown.searched}"
        else:
            place, is_round = place_after(found, shown.selected, stores.outline, step)
            self.mark_found(found)
            self._session.change(selected=found[place])
            end = " · from the top again" if step > 0 else " · from the end again"
            said = f"/{shown.searched}  {place + 1} of {len(found)}{end if is_round else ''}"
        self.post_message(Notice(said))

    def action_page(self, pages: float) -> None:
        """Go up or down by the lines in view, less one."""
        step = lines_of(pages, self.scrollable_content_region.height - 1)
        self._go_to_line(max(0, min(self.cursor_line + step, self.last_line)))

    def _go_to_line(self, line: int) -> None:
        """Move the cursor to a line and scroll there, which setting `cursor_line` alone does not."""
        self.cursor_line = line
        self.scroll_to_line(line, animate=False)

    def action_first(self) -> None:
        """Go to the first line."""
        self._go_to_line(0)

    def action_last(self) -> None:
        """Go to the last line."""
        self._go_to_line(self.last_line)

    def action_open(self) -> None:
        """Open a node, or go to the first child of an open one; go into a head."""
        node = self.cursor_node
        if node is None:
            return
        if not node.allow_expand:
            self.action_select_cursor()
        elif not node.is_expanded:
            node.expand()
        elif node.children:
            self.move_cursor(node.children[0])

    def action_close(self) -> None:
        """Close a node, or go to the parent of a closed one."""
        node = self.cursor_node
        if node is None:
            return
        if node.is_expanded and node.allow_expand and node.parent is not None:
            node.collapse()
        elif node.parent is not None:
            self.move_cursor(node.parent)


def _title(measure: str) -> Title:
    fewer = [(FACT, f"{measure[:count].rstrip()}…") for count in range(len(measure) - 2, 3, -1)]
    return Title((Part("heads", fewer=((WORDS, ""),), style="bold"), Part(measure, fewer=fewer), Part("QK OV", " ")))


def _ancestors(node: TreeNode[Head | None]) -> Iterator[TreeNode[Head | None]]:
    while node.parent is not None:
        node = node.parent
        yield node
