//! The terminal of `txweir top`: raw input, a screen of its own, and both given back at the end.

use std::io::{self, Stdout};
use std::time::Duration;

use ratatui_core::style::{Modifier, Style};
use ratatui_core::terminal::Terminal;
use ratatui_core::text::{Line, Text};
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::{cursor, execute, terminal};
use txweir::device::clock;
use txweir::device::poll::{self, PollFd, PollFlags};

use super::view::{self, Look};

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Down,
    Up,
    Order,
    PageDown,
    PageUp,
    /// The terminal has another size.
    Resized,
}

/// The terminal while frames are on it. Dropping the value gives it back as it was.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// stdin or stdout is no terminal.
    pub fn take() -> io::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        // The message of a panic is printed on the terminal that the user sees afterwards.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
        terminal::enable_raw_mode()?;
        // From here on the value gives back what was taken.
        let screen = Self { terminal };
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws the frame that `f` makes for a width and a height. Returns the height.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, f: impl FnOnce(usize, usize) -> Vec<view::Line>) -> io::Result<usize> {
        let drawn = self.terminal.draw(|frame| {
            let area = frame.area();
            let lines = f(usize::from(area.width), usize::from(area.height));
            frame.render_widget(text(lines), area);
        })?;
        Ok(usize::from(drawn.area.height))
    }

    /// Waits for a key, at most this long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&self, wait: Duration) -> io::Result<Option<Key>> {
        // crossterm reads a terminal that is gone for ever: this looks first.
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let until = clock::now_ns().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        poll::wait(&mut ready, Some(until), 0)?;
        if ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is gone"));
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key.code, key.modifiers),
            Event::Resize(..) => Some(Key::Resized),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back. If it is gone, there is nothing to be done.
fn give_back() {
    let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// Returns the meaning of a key. In raw mode the terminal makes no signal of Ctrl-C.
fn meaning(code: KeyCode, with: KeyModifiers) -> Option<Key> {
    match code {
        KeyCode::Char('c') if with.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('j') | KeyCode::Down => Some(Key::Down),
        KeyCode::Char('k') | KeyCode::Up => Some(Key::Up),
        KeyCode::Char('s') => Some(Key::Order),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Key::PageDown),
        KeyCode::PageUp => Some(Key::PageUp),
        _ => None,
    }
}

/// Returns a frame with the styles of its lines.
pub fn text(lines: Vec<view::Line>) -> Text<'static> {
    let styled = |(look, line): view::Line| {
        let style = match look {
            Look::Plain => Style::new(),
            Look::Head => Style::new().add_modifier(Modifier::BOLD),
            Look::Chosen => Style::new().add_modifier(Modifier::REVERSED),
            Look::Keys => Style::new().add_modifier(Modifier::DIM),
        };
        Line::styled(line, style)
    };
    Text::from_iter(lines.into_iter().map(styled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        let plain = |code| meaning(code, KeyModifiers::NONE);
        let keys = ['q', 'j', 'k', 's', ' ', 'x', 'c'].map(|c| plain(KeyCode::Char(c)));
        let meant = [Key::Quit, Key::Down, Key::Up, Key::Order, Key::PageDown].map(Some);
        assert_eq!(keys, [meant[0], meant[1], meant[2], meant[3], meant[4], None, None]);
        assert_eq!(meaning(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!([plain(KeyCode::Down), plain(KeyCode::Up)], [Some(Key::Down), Some(Key::Up)]);
    }
}
