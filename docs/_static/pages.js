// The tree of pages is longer than the window: begin with the current page in the middle.
// scrollIntoView would move the page too, and the theme's style would scroll slowly.
{
  const tree = document.querySelector(".sidebar-scroll");
  const entry = tree?.querySelector(".current-page");
  if (entry) {
    const below = entry.getBoundingClientRect().top - tree.getBoundingClientRect().top;
    tree.scrollTo({ top: tree.scrollTop + below - tree.clientHeight / 2, behavior: "instant" });
  }
}
